/**
 * The patience of a job with servers. Until its processor has been called, no error of a server
 * costs an attempt: the step is tried again in place, or the job is given back. Results are stored
 * with the same patience.
 */
import pRetry from 'p-retry'
import type { Channel } from '../../channel.ts'
import { messageOf } from '../../message-of.ts'
import { causeOf } from './failure.ts'
import type { Visit } from './visit.ts'

const RETRY_MS = { minTimeout: 50, maxTimeout: 2_000 }

/** A job that was not started has to be given back. */
export class NotStarted extends Error {}

/** Repeats what a server refused, until it is done or the job's signal aborts. */
export async function insist<Value>(
  { job, stop }: Visit,
  channel: Channel,
  action: () => Promise<Value>,
): Promise<Value> {
  try {
    return await action()
  } catch (error) {
    if (causeOf(error) !== 'temporary') throw error
    channel.tell('job:server-refused', { job: job.id, reason: messageOf(error) })
  }
  const shouldRetry = ({ error }: { readonly error: Error }): boolean =>
    causeOf(error) === 'temporary'
  const { signal } = stop
  return pRetry(action, { ...RETRY_MS, retries: Infinity, randomize: true, signal, shouldRetry })
}

/** Repeats what a server refused, while the job is ours. @throws NotStarted when it must stop. */
export async function insistToStart<Value>(
  visit: Visit,
  channel: Channel,
  action: () => Promise<Value>,
): Promise<Value> {
  try {
    return await insist(visit, channel, action)
  } catch (cause) {
    throw causeOf(cause) === 'final' ? cause : new NotStarted('It could not start', { cause })
  }
}
