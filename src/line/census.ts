/** What waits in the lines of a queue, for those who look after it. */
import { systemClock, withinMs } from '../clock.ts'
import type { LineCensus } from '../facts.ts'
import type { LineRunner } from './line-runner.ts'

/** What `lua/census.lua` says. */
export interface Census extends LineCensus {
  /** Jobs that could start, or sleep in line. */
  readonly waiting: number
  /** Of the jobs that start next, the one that waits longest, and from when. */
  readonly oldest?: string
  readonly oldestSinceMs?: number
  /** By the clock of the queue's Redis, as the times are. */
  readonly nowMs: number
  /** When a line was full last. */
  readonly fullAtMs: number
  readonly fullResource: string
  /** Lines that a failed job holds; and the longest of them. */
  readonly held: number
  readonly heldResource?: string
  readonly holder?: string
  readonly failedReason?: string
  readonly behind?: number
  /** Settings of the last worker, and of the last producer (JSON). */
  readonly ofWorker?: string
  readonly ofProducer?: string
}

/** A scrape waits this long at most. */
const LIMIT_MS = 500
/** Lines that are looked at. */
const LINES = 1_000

/** @param isWhole also with the lines that failed jobs hold. */
export async function censusOf(runner: LineRunner, isWhole: boolean): Promise<Census> {
  return JSON.parse(
    (await runner.run('line/lua/census', { most: LINES, isWhole })) as string,
  ) as Census
}

/** For a scrape. Undefined when the queue's Redis does not answer soon: others report that. */
export async function lineCensus(runner: LineRunner): Promise<LineCensus | undefined> {
  return withinMs(systemClock, LIMIT_MS, censusOf(runner, false)).catch(() => undefined)
}
