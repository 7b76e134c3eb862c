/** Whether a resource of which no quorum has one key could be held, for people. Pure. */
import { counted } from './counted.ts'
import type { MasterView } from './lock/inspection.ts'
import { quorumOf } from './redlock/quorum.ts'

/** A view with the whole token, which is not shown to people. */
export interface Seen extends MasterView {
  readonly token?: string
}

export interface Unheld {
  /** How many masters have the key that most of them have. */
  readonly votes: number
  readonly silent: number
  /** How many have no key, and could have forgotten one in a restart. */
  readonly forgetful: number
}

/** Whether masters could make a lease of those that have a key. */
export function couldBeHeld({ votes, silent, forgetful }: Unheld, quorum: number): boolean {
  // A fleet that is new has forgotten nothing.
  return votes + silent > 0 && votes + silent + forgetful >= quorum
}

/**
 * Whose keys could make a lease of those that are seen; undefined where it is free.
 * @param restarted masters that could have forgotten what they granted.
 */
export function missingVotes(
  seen: readonly Seen[],
  restarted: readonly string[],
): string | undefined {
  const votes = seen.map(
    ({ token }) => seen.filter((other) => token !== undefined && other.token === token).length,
  )
  const silent = seen.filter(({ problem }) => problem !== undefined).length
  const isForgetful = ({ master, token, problem }: Seen): boolean =>
    (token ?? problem) === undefined && restarted.includes(master)
  const forgetful = seen.filter(isForgetful).length
  const unheld = { votes: Math.max(0, ...votes), silent, forgetful }
  if (!couldBeHeld(unheld, quorumOf(seen.length))) return undefined
  const forgot = `${counted(forgetful, 'is', 'are')} new or restarted, and may have forgotten a key`
  const why = [silent && `${counted(silent, 'does', 'do')} not answer`, forgetful && forgot]
  return `of ${counted(seen.length, 'master')}, ${why.filter(Boolean).join(', and ')}`
}
