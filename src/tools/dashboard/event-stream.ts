/** Server-Sent Events to one viewer. A viewer that reads slowly misses events. */
import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long a browser waits before it connects again. */
const RETRY_MS = 2_000

export class EventStream {
  readonly #response: ServerResponse

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#response = response
    request.socket.setTimeout(0) // It stays open.
    // Proxies that collect what passes would make news old.
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
    response.write(`retry: ${RETRY_MS}\n\n`)
  }

  send(event: string, data: object): void {
    const { writableNeedDrain, writableEnded, destroyed } = this.#response
    if (writableNeedDrain || writableEnded || destroyed) return
    this.#response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  }

  end(): void {
    this.#response.end()
  }
}
