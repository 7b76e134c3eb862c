/**
 * What a line knows of a job in a worker. The worker keeps one record a job, its visit, from the
 * fetch to the trip that ends it. The line asks for it by BullMQ's id, or by BullMQ's job.
 */
import type { Job } from 'bullmq'
import { Expiring } from '../clock.ts'
import type { Slots } from '../slots.ts'

/** A queue that takes no job back in this time finds it stalled; neither uses an attempt. */
export const GIVE_BACK_LIMIT_MS = 1_000

/** How a job's last trip moves its lines, as `lua/finish.lua` has it. */
export interface Move {
  /** What its line has used of its burst then. It travels with the line's next job. */
  readonly usedMs: number
  /** The next job goes behind the jobs that wait, not before them. */
  readonly back: true | undefined
  /** Of a spent burst: how many jobs this worker has. An idle one with two fewer gets the next. */
  readonly runs: number | undefined
  readonly share: string | undefined
  /** What to count for its tenant. */
  readonly chargeMs: number | undefined
}

/** A job in a worker, as far as its lines go. */
export abstract class LineVisit extends Expiring {
  /**
   * Whether it may run. `woken`: the job before it woke it in the trip that fetched it. `yes`: no
   * job is ahead of it. `no`: the worker has to ask. `none`: it has no place yet.
   */
  turn: 'woken' | 'yes' | 'no' | 'none' = 'none'
  /** Its resources (JSON); '' where it has no lines. */
  lines = ''
  /** What its line has used of its burst, in milliseconds of work. */
  usedMs = 0
  /** The slots of its resources, where they are set; undefined where the worker's own count. */
  slots: Slots | undefined
  /** '' where the job has none. */
  share = ''
  /** What its start has counted for its tenant already. */
  chargedMs = 0
  /** BullMQ's rate limit counts its start until then, on the clock of the queue's Redis. */
  limitEndsAt = 0
  /** BullMQ's, once it starts the job. */
  job!: Job
  /** BullMQ's lock on it lasts until then, on the monotonic clock. A later renewal may fail. */
  lockedUntil: number = Infinity
  /** Of BullMQ's lock on the job. */
  token: string | undefined
  resources: readonly string[] = []
  /** Its processor has been called, in this run or before it: the job has waited. */
  hasRun = false
  /** Ends the job without its processor, once that has been called in this run. */
  giveUp: ((error: Error) => void) | undefined
  /** It could start then, as the queue's Redis has noted; 0 where only its options say it. */
  from = 0
  /** Of a job that has to take its place. */
  join: Join | undefined
  /** Adds the next job of its scheduler: when this one starts, or ends without. */
  addNext: (() => Promise<unknown>) | undefined
  /** It has done its work: how its last trip moves its lines. Without, it just leaves them. */
  move: Move | undefined
  /** The trip that ends the job is under way. */
  sent: (() => void) | undefined
  /** The trip is back with the job that it fetched, if any, or has failed. */
  settle: ((next: LineVisit | undefined) => void) | undefined
}

/** Jobs without a place take theirs in the order in which their worker was given them. */
export interface Join {
  readonly earlier: Promise<unknown>
  /** It takes no place, or has sent for it: those behind it need not wait for it. */
  readonly done: () => void
}

/** The jobs of a worker. */
export interface LineVisits {
  /** By the ids of their jobs, until they end. Two runs of a job at once: the later one. */
  readonly byId: ReadonlyMap<string, LineVisit>
  /** A job was fetched. */
  fetched(jobId: string): LineVisit
  /** The job of that id that was fetched, and has not started. */
  waiting(jobId: string): LineVisit | undefined
  /** The trip moves a job by hand. */
  moving<Answer>(jobId: string, trip: Promise<Answer>): Promise<Answer>
  /** Whether none of the jobs waits for a lease any more within the time. */
  idleWithin(limitMs: number, which: 'waiting'): Promise<boolean>
  /** A job's last trip begins: asked once. Undefined for a job of which nothing is to be said. */
  ending(job: Pick<Job, 'id'>): LineVisit | undefined
}
