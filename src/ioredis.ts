/**
 * ioredis, loaded with the first connection: it takes a third of the time that BullMQ takes, which
 * loads it as late. Who only imports this package needs none. Of ioredis there is one copy,
 * whether it is imported or required.
 */
import { createRequire } from 'node:module'
import type * as Ioredis from 'ioredis'
import type { EventEmitter } from 'node:events'

export function ioredis(): typeof Ioredis {
  return createRequire(import.meta.url)('ioredis') as typeof Ioredis
}

/** What is made of it: when it is first needed, and once. */
export function ofIoredis<Made>(make: (loaded: typeof Ioredis) => Made): () => Made {
  let made: Made | undefined
  return () => (made ??= make(ioredis()))
}

export interface Sockets {
  on(event: 'error', heard: () => void): unknown
  /** Of ioredis, once it connects. */
  readonly stream?: EventEmitter
}

/**
 * ioredis hears the first error of a socket. Where a client refuses the server's certificate, the
 * server's answer is a second one, and an error that is not heard ends the process.
 */
export function hearLateErrors(client: Sockets): void {
  client.on('error', () => {
    const { stream } = client
    // rule: late-error-ends-no-process
    if (stream?.listenerCount('error') === 0) stream.on('error', () => undefined)
  })
}

/** Empty where the package's own description cannot be found. */
export function ioredisVersion(): string {
  try {
    const found = createRequire(import.meta.url)('ioredis/package.json') as { version?: unknown }
    return String(found.version)
  } catch {
    return '' // Then batches leave as ordinary commands.
  }
}
