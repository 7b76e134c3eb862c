/**
 * What a line knows of a job in a worker. The worker keeps one record a job, its visit, from the
 * fetch to the trip that ends it. The line asks for it by BullMQ's id, or by BullMQ's job.
 */
import type { Job } from 'bullmq'
import type { Slots } from '../slots.ts'

/** Whether a fetched job may run. */
export interface Turn {
  /**
   * `woken`: the job before it woke it in the trip that fetched it. `yes`: no job is
   * ahead of it. `no`: the worker has to ask. `none`: it has no place yet.
   */
  readonly turn: 'woken' | 'yes' | 'no' | 'none'
  /** Its resources as the queue's Redis has them (JSON); '' where it has none. */
  readonly lines: string
  /** What its line has used of its burst, in milliseconds of work. */
  readonly usedMs: number
  /** The slots of its resources, where they are set; undefined where the worker's own count. */
  readonly slots: Slots | undefined
  /** As the queue's Redis has it; '' where the job has none. */
  readonly share: string
  /** What its start has counted for its tenant already. */
  readonly chargedMs: number
}

/** Of a job of which nothing is known. */
export const NO_TURN: Turn = {
  turn: 'none',
  lines: '',
  usedMs: 0,
  slots: undefined,
  share: '',
  chargedMs: 0,
}

/** How a job's last trip moves its lines. */
export interface Move {
  readonly timestamp: number
  /** As {@link Turn.lines}. */
  readonly lines: string
  /** Where the next job goes: before the jobs that wait, or behind them. */
  readonly next: 'front' | 'back'
  /** What its line has used of its burst then. It travels with the line's next job. */
  readonly usedMs: number
  /** Of the job, '' where it has none; and what to count for its tenant. */
  readonly share: string
  readonly chargeMs: number
  /** The next job is left to other workers, if it is the only one that waits. */
  readonly offers: boolean
}

/** A job in a worker, as far as its lines go. */
export interface LineVisit {
  readonly job: Pick<Job, 'id' | 'timestamp' | 'opts' | 'attemptsMade'>
  /** Of BullMQ's lock on the job. */
  readonly token: string | undefined
  readonly resources: readonly string[]
  /** Without one the job just leaves its lines. */
  readonly move: Move | undefined
  /** Of a job that has to take its place. */
  join: Join | undefined
  /** Adds the next job of its scheduler: when this one starts, or ends without. */
  addNext: (() => Promise<unknown>) | undefined
}

/** Jobs without a place take theirs in the order in which their worker was given them. */
export interface Join {
  readonly earlier: Promise<unknown>
  /** It takes no place, or has sent for it: those behind it need not wait for it. */
  readonly done: () => void
}

/** The jobs of a worker. */
export interface LineVisits {
  /** A job was fetched. */
  fetched(jobId: string, turn: Turn): LineVisit
  /** The job of that id that was fetched, and has not started. */
  waiting(jobId: string): LineVisit | undefined
  /** A job's last trip begins: asked once. Undefined for a job of which nothing is to be said. */
  ending(job: Pick<Job, 'id'>): LineVisit | undefined
  /** The trip is under way. */
  sent(visit: LineVisit): void
  /** The trip is back with the job that it fetched, if any, or has failed. */
  returned(visit: LineVisit, next: LineVisit | undefined): void
}
