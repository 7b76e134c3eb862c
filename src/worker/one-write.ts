/**
 * Makes commands that are sent on BullMQ's connection in one turn of the event loop leave in one write, so that the server runs
 * them with nothing in between. Where the backend has no such connection they leave one by one, which is only slower.
 */

interface Stream {
  cork(): void
  uncork(): void
}

export class OneWrite {
  #client: { readonly stream?: Partial<Stream> } | undefined

  /** @param backend BullMQ's; Redis backends have a client, others may not. */
  constructor(backend: object) {
    const { client } = backend as { readonly client?: Promise<{ readonly stream?: Stream }> }
    client?.then(
      (connected) => {
        this.#client = connected
      },
      () => undefined, // Never connected: BullMQ reports it.
    )
  }

  untilEndOfTurn(): void {
    const stream = this.#client?.stream
    if (typeof stream?.cork !== 'function') return
    stream.cork()
    // After every promise chain that runs now, and before anything else.
    process.nextTick(() => stream.uncork?.())
  }
}
