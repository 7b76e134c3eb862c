/**
 * ioredis, loaded with the first connection: it takes a third of the time that BullMQ takes, which
 * loads it as late. Who only imports this package needs none. Of ioredis there is one copy,
 * whether it is imported or required.
 */
import { createRequire } from 'node:module'
import type * as Ioredis from 'ioredis'

export function ioredis(): typeof Ioredis {
  return createRequire(import.meta.url)('ioredis') as typeof Ioredis
}

/** What is made of it: when it is first needed, and once. */
export function ofIoredis<Made>(make: (loaded: typeof Ioredis) => Made): () => Made {
  let made: Made | undefined
  return () => (made ??= make(ioredis()))
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
