import { Worker, type Job, type WorkerListener } from 'bullmq'
import type { LeaseLostError } from '../lock-errors.ts'
import type { Requeue } from './run/requeue.ts'

/** The events of a `LockedWorker`: BullMQ's, and three more. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedWorkerListener<
  Data = any,
  Result = any,
  Name extends string = string,
> extends WorkerListener<Data, Result, Name> {
  /** A job may not run yet and went back to the queue; no attempt was used. */
  requeued: (job: Job<Data>, requeue: Requeue) => void
  /**
   * A job's lease was lost while it ran. Its result or failure stands as the processor reported it.
   */
  leaseLost: (job: Job<Data>, error: LeaseLostError) => void
  /**
   * `open`: no lease can be granted and the worker fetches nothing; `closed`: it
   * fetches again.
   */
  breaker: (state: 'open' | 'closed') => void
}

/** A BullMQ `Worker` with these events. */
export abstract class ListenedWorker<Data, Result, Name extends string> extends Worker<
  Data,
  Result,
  Name
> {
  override on<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    listener: LockedWorkerListener<Data, Result, Name>[Event],
  ): this {
    return super.on(event as never, listener as never)
  }

  override once<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    listener: LockedWorkerListener<Data, Result, Name>[Event],
  ): this {
    return super.once(event as never, listener as never)
  }

  override off<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    listener: LockedWorkerListener<Data, Result, Name>[Event],
  ): this {
    return super.off(event as never, listener as never)
  }
}
