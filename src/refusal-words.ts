/** Why an attempt was not granted, in words: for its error, and for the log of a job. */
import type { MasterAnswer } from './lock-errors.ts'

/** What each master said. */
export function list(answers: readonly MasterAnswer[]): string {
  return answers.map(({ master, answer }) => `${master}: ${answer}`).join(' · ')
}

export function takenBy(resource: string, holder: string, retryAfterMs: number): string {
  return `\`${resource}\` is held by ${holder} for another ${retryAfterMs} ms, if it is not extended.`
}

export function splitOver(resource: string): string {
  return `The votes for \`${resource}\` were split: no client holds a quorum.`
}
