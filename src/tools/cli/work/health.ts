/**
 * Whether this process works: alive for as long as it answers, ready while every worker fetches
 * jobs, a quorum of the masters votes, and the queue's Redis answers. The servers are asked,
 * because an idle worker does not notice that they are away.
 */
import { systemClock } from '../../../clock.ts'
import { messageOf } from '../../../message-of.ts'
import { json, type HttpAnswer } from '../../dashboard/answers.ts'
import { ungrantedBy, type Diagnosis } from '../../operator/diagnosis.ts'
import type { Pages } from '../listen.ts'
import type { RunnableWorker } from './load-workers.ts'

/** As much of a diagnosis as readiness needs. */
export interface VoteCount extends Pick<Diagnosis, 'voting' | 'quorum'> {
  /** Why no lease is granted; undefined where one is. */
  readonly problem: string | undefined
}

export function voteCount(found: Diagnosis): VoteCount {
  const { voting, quorum } = found
  return { voting, quorum, problem: found.problem ?? ungrantedBy(found) }
}

interface HealthOptions {
  readonly workers: readonly RunnableWorker[]
  /** Aborts when the process begins to drain. */
  readonly signal: AbortSignal
  /** Asks the masters. */
  readonly votes: () => Promise<VoteCount>
  /** Asks the queue's Redis. Undefined where the modules connect to it themselves. */
  readonly asksQueue: (() => Promise<unknown>) | undefined
}

type State = 'running' | 'starting' | 'paused' | 'draining'

export function healthPages({ workers, signal, votes, asksQueue }: HealthOptions): Pages {
  const states = (): readonly { readonly queue: string; readonly state: State }[] =>
    workers.map((worker) => ({ queue: worker.name, state: stateOf(worker, signal) }))
  const ready = async (): Promise<HttpAnswer> => {
    const asked = asksQueue?.().then(() => undefined, messageOf)
    const [masters, queueRedis] = await Promise.all([votes(), asked])
    const all = states()
    const hasQuorum = masters.voting >= masters.quorum
    const isRunning = all.every(({ state }) => state === 'running')
    const isReady = hasQuorum && queueRedis === undefined && isRunning
    const status = isReady ? 'ready' : 'not ready'
    return json({ status, workers: all, masters, queueRedis }, isReady ? 200 : 503)
  }
  return new Map<string, () => HttpAnswer | Promise<HttpAnswer>>([
    ['/healthz', () => json({ status: 'alive', workers: states() })],
    ['/readyz', ready],
  ])
}

/** Until the masters are ready a worker does not run; while it finds no quorum it is paused. */
function stateOf(worker: RunnableWorker, signal: AbortSignal): State {
  if (signal.aborted) return 'draining'
  if (worker.isPaused()) return 'paused'
  return worker.isRunning() && !worker.isStarting() ? 'running' : 'starting'
}

const FRESH_MS = 1_000

/** Asks when a probe asks, and at most once a second however many do. */
export function atMostOnceASecond<Value>(ask: () => Promise<Value>): () => Promise<Value> {
  let requestedAt = -Infinity
  let answer: Promise<Value> | undefined
  return () => {
    if (answer === undefined || systemClock.now() - requestedAt >= FRESH_MS) {
      requestedAt = systemClock.now()
      answer = ask()
    }
    return answer
  }
}
