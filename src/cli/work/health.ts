/**
 * Whether this process works: alive for as long as it answers, ready while every worker fetches jobs and a quorum of the
 * masters votes. The masters are asked: an idle worker does not notice that they are away.
 */
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
  /** Asks the masters. Undefined where the modules make a Redlock themselves, whose masters are not known here. */
  readonly votes: (() => Promise<Votes>) | undefined
}

type State = 'running' | 'starting' | 'paused' | 'draining'

export function healthPages({ workers, signal, votes }: HealthOptions): Pages {
  const states = (): readonly { readonly queue: string; readonly state: State }[] =>
    workers.map((worker) => ({ queue: worker.name, state: stateOf(worker, signal) }))
  return new Map<string, () => Page | Promise<Page>>([
    ['/healthz', () => jsonPage(200, { status: 'alive', workers: states() })],
    [
      '/readyz',
      async () => {
        const masters = await votes?.()
        const all = states()
        const hasQuorum = masters === undefined || masters.voting >= masters.quorum
        const ready = hasQuorum && all.every(({ state }) => state === 'running')
        const status = ready ? 'ready' : 'not ready'
        return jsonPage(ready ? 200 : 503, { status, workers: all, ...(masters && { masters }) })
      },
    ],
  ])
}

/** Until the masters are ready a worker does not run; while it finds no quorum it is paused. */
function stateOf(worker: RunnableWorker, signal: AbortSignal): State {
  if (signal.aborted) return 'draining'
  if (worker.isPaused()) return 'paused'
  return worker.isRunning() && !worker.isStarting() ? 'running' : 'starting'
}
