/**
 * Makes commands that are sent on one connection in one turn of the event loop leave in one write: a write costs more than what is
 * in it, and the server runs them with nothing in between. On a connection without a stream of its own they leave one by one,
 * which is only slower.
 */

interface Stream {
  cork(): void
  uncork(): void
}

export class OneWrite {
  #client: { readonly stream?: Partial<Stream> } | undefined
  #corked = false

  /** @param client an ioredis client, or what becomes one; others may have no stream. */
  constructor(client: object | undefined) {
    Promise.resolve(client).then(
      (connected) => {
        this.#client = connected
      },
      () => undefined, // Never connected: its owner reports it.
    )
  }

  untilEndOfTurn(): void {
    const stream = this.#client?.stream
    if (this.#corked || typeof stream?.cork !== 'function') return
    this.#corked = true
    stream.cork()
    // After every promise chain that runs now, and before anything else.
    process.nextTick(() => {
      this.#corked = false
      stream.uncork?.()
    })
  }
}
