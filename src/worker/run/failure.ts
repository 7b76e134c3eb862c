/** What an error means for a job: whether it is tried again, goes back, or fails, and with what. */
import { DelayedError, UnrecoverableError, WaitingChildrenError, WaitingError } from 'bullmq'
import type { BackoffStrategy } from 'bullmq'
import pRetry from 'p-retry'
import { ShutdownError } from '../../errors.ts'
import {
  JobCancelledError,
  JobLockLostError,
  ResourceError,
  ValueTooLargeError,
} from '../../job-errors.ts'
import { DENIES, PASSING, says, UNANSWERED } from '../../line/refusals.ts'
import {
  LeaseLostError,
  QuorumUnreachableError,
  RedlockClosedError,
  SplitVoteError,
} from '../../lock-errors.ts'
import { sleep, systemClock } from '../../clock.ts'
import { messageOf } from '../../message-of.ts'
import type { Visit } from './visits.ts'

/** As BullMQ's `ErrorCode` has it. */
const JOB_NOT_EXIST = -1

/**
 * What to do about an error before the processor was called. `temporary`: try again; servers and
 * connections recover. `elsewhere`: the job cannot run here. `final`: the job fails.
 */
export function causeOf(error: unknown): 'temporary' | 'elsewhere' | 'final' {
  if (!(error instanceof Error)) return 'elsewhere'
  if (error instanceof TypeError || error instanceof UnrecoverableError) return 'final'
  if (error instanceof DelayedError || error instanceof ResourceError) return 'final'
  if (error instanceof ValueTooLargeError) return 'final'
  if (error instanceof RedlockClosedError || error instanceof ShutdownError) return 'elsewhere'
  if (error instanceof LeaseLostError || error instanceof JobLockLostError) return 'elsewhere'
  // Its own lease holds its line meanwhile.
  // rule: job-without-a-turn-goes-back
  if (error instanceof QuorumUnreachableError || error instanceof SplitVoteError) return 'elsewhere'
  if (!('code' in error && typeof error.code === 'number')) return 'temporary'
  // BullMQ numbers its refusals. The data of a job may be gone, and then it can run nowhere.
  // rule: job-without-data-fails
  if (error.code === JOB_NOT_EXIST) return 'final'
  return 'elsewhere' // The job is no longer this worker's.
}

/** A server that does nothing for this client, for a time or until its operator acts. */
export function refuses(error: unknown): boolean {
  return says(error, PASSING, DENIES)
}

/** A server that refuses, or is away. */
export function isAway(error: unknown): boolean {
  return says(error, PASSING, DENIES, UNANSWERED)
}

/** Before the queue's Redis is asked again to take the end of a job. */
const END_RETRY_MS = { minTimeout: 100, maxTimeout: 1_000 }

/**
 * BullMQ fails a job whose result its server refuses, be it for the second of a failover, or whose
 * result does not reach its server. Here the server is asked again until it takes the end, the job
 * has started elsewhere, or the worker closes its connection.
 * @param refusal what came of the first `end`.
 */
export async function untilTaken<Next>(
  refusal: unknown,
  end: () => Promise<Next>,
  onError: (error: unknown) => void,
): Promise<Next> {
  const isAskedAgain = ({ error }: { readonly error: unknown }): boolean => {
    // rule: unanswered-end-is-sent-again
    const mayPass = isAway(error)
    // rule: refused-end-fails-no-job
    if (!mayPass) return false
    onError(error)
    return true
  }
  if (!isAskedAgain({ error: refusal })) throw refusal
  await sleep(systemClock, END_RETRY_MS.minTimeout)
  return pRetry(end, { ...END_RETRY_MS, retries: Infinity, shouldRetry: isAskedAgain })
}

/** The worker, or the lock service, was closed under a running job. */
export function isGivenBack(reason: unknown): boolean {
  if (reason instanceof ShutdownError || reason instanceof RedlockClosedError) return true
  return reason instanceof LeaseLostError && reason.cause instanceof RedlockClosedError
}

/** @throws what a job fails with that was cancelled, before its processor was called. */
export function assertWanted(visit: Visit): void {
  const { isAborted, reason } = visit.stop
  const isLost = reason instanceof LeaseLostError || reason instanceof JobLockLostError
  // rule: cancelled-job-does-not-go-back
  if (isAborted && !isLost && !isGivenBack(reason)) throw failureOf(asError(reason), visit)
}

const MOVES = [DelayedError, WaitingError, WaitingChildrenError]

/** The processor has moved its job, which is no longer this worker's. As BullMQ knows it. */
export function hasMoved(error: unknown): boolean {
  return (
    error instanceof Error &&
    MOVES.some((each) => error instanceof each || error.name === each.name)
  )
}

/** What a job fails with that was stopped for a reason; BullMQ cancels with any value, or none. */
export function asError(reason: unknown): Error {
  if (reason instanceof Error && reason.name !== 'AbortError') return reason
  const why = typeof reason === 'string' ? `: ${reason}` : ''
  return new Error(`The job was cancelled${why}`, { cause: reason })
}

/** What a job fails with. I/O that the signal stopped says only "aborted"; the reason says why. */
export function failureOf(error: unknown, { stop, cancelled }: Visit): unknown {
  // The work would be done again to the same end.
  if (error instanceof ValueTooLargeError) return new UnrecoverableError(error.message)
  const { isAborted, reason } = stop
  const why = cancelled ?? reason
  // rule: cancelled-job-is-not-retried
  if (why instanceof JobCancelledError) return new UnrecoverableError(why.message)
  const isReason = !(error instanceof Error) || error.name === 'AbortError'
  if (isAborted && isReason) return asError(reason)
  // Without an error BullMQ does not end the job: it would hold its line until it has stalled.
  return error ?? new Error('The job failed without a reason')
}

/**
 * BullMQ does not end a job whose backoff throws: it would hold its line until it has stalled. Here
 * it fails for good.
 */
export function safeBackoff(
  own: BackoffStrategy | undefined,
  onError: (error: Error) => void,
): BackoffStrategy {
  return async (attemptsMade, type, error, job) => {
    try {
      if (own !== undefined) return await own(attemptsMade, type, error, job)
      throw new Error('the worker has no `settings.backoffStrategy`')
    } catch (cause) {
      const why = `its backoff is of type \`${type}\`, and ${messageOf(cause)}`
      onError(new Error(`Job ${job?.id ?? '?'} is not tried again: ${why}`, { cause }))
      return -1
    }
  }
}

/** @throws what a job failed with. */
export function settledValue<Result>(outcome: PromiseSettledResult<Result> | undefined): Result {
  if (outcome?.status === 'fulfilled') return outcome.value
  throw outcome?.reason
}
