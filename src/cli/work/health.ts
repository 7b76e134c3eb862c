/**
 * Whether this process works: alive for as long as it answers, ready while every worker fetches
 * jobs, a quorum of the masters votes, and the queue's Redis answers. The servers are asked,
 * because an idle worker does not notice that they are away.
 */
import { messageOf } from '../../message-of.ts'
import { jsonPage, type Page, type Pages } from './http-pages.ts'
import type { RunnableWorker } from './load-workers.ts'

/** As much of a diagnosis as readiness needs. */
export interface Votes {
  readonly voting: number
  readonly quorum: number
}

export interface HealthOptions {
  readonly workers: readonly RunnableWorker[]
  /** Aborts when the process begins to drain. */
  readonly signal: AbortSignal
  /**
   * Asks the masters. Undefined where the modules make a Redlock themselves, whose masters are not
   * known here.
   */
  readonly votes: (() => Promise<Votes>) | undefined
  /** Asks the queue's Redis. Undefined where the modules connect to it themselves. */
  readonly asksQueue: (() => Promise<unknown>) | undefined
}

type State = 'running' | 'starting' | 'paused' | 'draining'

export function healthPages({ workers, signal, votes, asksQueue }: HealthOptions): Pages {
  const states = (): readonly { readonly queue: string; readonly state: State }[] =>
    workers.map((worker) => ({ queue: worker.name, state: stateOf(worker, signal) }))
  return new Map<string, () => Page | Promise<Page>>([
    ['/healthz', () => jsonPage(200, { status: 'alive', workers: states() })],
    [
      '/readyz',
      async () => {
        const [masters, queueRedis] = await Promise.all([votes?.(), problemOf(asksQueue)])
        const all = states()
        const hasQuorum = masters === undefined || masters.voting >= masters.quorum
        const isRunning = all.every(({ state }) => state === 'running')
        const ready = hasQuorum && queueRedis === undefined && isRunning
        const status = ready ? 'ready' : 'not ready'
        return jsonPage(ready ? 200 : 503, { status, workers: all, masters, queueRedis })
      },
    ],
  ])
}

async function problemOf(ask: HealthOptions['asksQueue']): Promise<string | undefined> {
  try {
    await ask?.()
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

/** Until the masters are ready a worker does not run; while it finds no quorum it is paused. */
function stateOf(worker: RunnableWorker, signal: AbortSignal): State {
  if (signal.aborted) return 'draining'
  if (worker.isPaused()) return 'paused'
  return worker.isRunning() && !worker.isStarting() ? 'running' : 'starting'
}
