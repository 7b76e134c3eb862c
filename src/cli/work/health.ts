/** Whether this process works: alive for as long as it answers, ready while every worker fetches jobs. */
import { jsonPage, type Page, type Pages } from './http-pages.ts'
import type { RunnableWorker } from './load-workers.ts'

export interface HealthOptions {
  readonly workers: readonly RunnableWorker[]
  /** Aborts when the process begins to drain. */
  readonly signal: AbortSignal
}

type State = 'running' | 'starting' | 'paused' | 'draining'

export function healthPages({ workers, signal }: HealthOptions): Pages {
  const states = (): readonly { readonly queue: string; readonly state: State }[] =>
    workers.map((worker) => ({ queue: worker.name, state: stateOf(worker, signal) }))
  return new Map<string, () => Page>([
    ['/healthz', () => jsonPage(200, { status: 'alive', workers: states() })],
    [
      '/readyz',
      () => {
        const all = states()
        const ready = all.every(({ state }) => state === 'running')
        return jsonPage(ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', workers: all })
      },
    ],
  ])
}

/** Until the masters are ready a worker does not run; while they have no quorum it is paused. */
function stateOf(worker: RunnableWorker, signal: AbortSignal): State {
  if (signal.aborted) return 'draining'
  if (worker.isPaused()) return 'paused'
  return worker.isRunning() ? 'running' : 'starting'
}
