/** Streams of server-sent events: what the page shows, after every snapshot. */
import type { ServerResponse } from 'node:http'
import { text, type HttpAnswer, type RoutedRequest } from './answers.ts'
import type { Snapshot, Snapshots } from './snapshots.ts'
import type { DashboardState } from './state.ts'

export const STREAM = { 'content-type': 'text/event-stream' }

/** The most streams that are open at once. */
const MAX_VIEWERS = 50
/** How long a browser waits before it connects again. */
const RETRY_MS = 2_000

export class Streams {
  readonly #snapshots: Snapshots
  readonly #open = new Set<ServerResponse>()

  constructor(snapshots: Snapshots) {
    this.#snapshots = snapshots
  }

  /** Undefined when the answer has been begun. */
  open(
    { request, response }: RoutedRequest,
    stateOf: (snapshot: Snapshot) => Promise<DashboardState>,
  ): HttpAnswer | undefined {
    if (this.#snapshots.viewers >= MAX_VIEWERS) {
      return text(503, `${MAX_VIEWERS} viewers are connected already.`, { 'retry-after': '10' })
    }
    request.socket.setTimeout(0) // It stays open.
    // Proxies that collect what passes would make news old.
    response.writeHead(200, { ...STREAM, 'x-accel-buffering': 'no' })
    response.write(`retry: ${RETRY_MS}\n\n`)
    this.#open.add(response)
    const send = async (snapshot: Snapshot): Promise<void> => {
      const state = await stateOf(snapshot)
      const { writableNeedDrain, writableEnded, destroyed } = response
      // A viewer that reads slowly misses events.
      if (writableNeedDrain || writableEnded || destroyed) return
      response.write(`event: state\ndata: ${JSON.stringify(state)}\n\n`)
    }
    const stop = this.#snapshots.watch((snapshot) => {
      send(snapshot).catch(() => undefined) // The page says how old its last news are.
    })
    response.once('close', () => {
      this.#open.delete(response)
      stop()
    })
    return undefined
  }

  close(): void {
    for (const stream of this.#open) stream.end()
  }
}
