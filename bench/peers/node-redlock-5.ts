/**
 * What redlock 5 and its fork have in common: the same names, and the same ways to ask why it
 * failed.
 */
import type { Client, Held, Reason, Setup } from './adapter.ts'
import { connectAll, disconnectAll, retriesFor, type PeerRedis } from './load.ts'

interface Lock {
  readonly expiration: number
  release(): Promise<unknown>
}

interface Vote {
  readonly votesAgainst: ReadonlyMap<unknown, Error>
}

interface Redlock {
  acquire(resources: readonly string[], ttlMs: number): Promise<Lock>
  using<Result>(
    resources: readonly string[],
    ttlMs: number,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result>
}

export type RedlockClass = new (
  clients: readonly PeerRedis[],
  settings: { retryCount: number; retryDelay: number; retryJitter: number },
) => Redlock

const RETRY_DELAY_MS = 200

export async function connectRedlock5(Redlock: RedlockClass, setup: Setup): Promise<Client> {
  const clients = await connectAll(setup)
  const redlock = new Redlock(clients, {
    retryCount: retriesFor(setup.waitMs, RETRY_DELAY_MS),
    retryDelay: RETRY_DELAY_MS,
    retryJitter: 100,
  })
  const key = (resource: string): string => `${setup.namespace}:${resource}`
  return {
    acquire: async (resource, ttlMs) => heldBy(await redlock.acquire([key(resource)], ttlMs)),
    using: (resource, ttlMs, work) =>
      redlock.using([key(resource)], ttlMs, (signal) =>
        work((lost) => {
          signal.addEventListener('abort', lost)
        }),
      ),
    reason,
    close: () => disconnectAll(clients),
  }
}

function heldBy(lock: Lock): Held {
  const remainingMs = (): number => lock.expiration - Date.now()
  return {
    remainingMs,
    isHeld: () => remainingMs() > 0,
    release: () => lock.release(),
  }
}

/**
 * "Per-attempt and per-client stats (including errors) are made available on the `attempt`
 * property" (README).
 */
async function reason(error: unknown): Promise<Reason> {
  if (!(error instanceof Error) || !('attempts' in error)) return 'unknown'
  const votes = await Promise.all(error.attempts as readonly Promise<Vote>[])
  const against = [...(votes.at(-1)?.votesAgainst.values() ?? [])]
  const locked = against.filter(({ name, constructor }) =>
    [name, constructor.name].includes('ResourceLockedError'),
  )
  return locked.length > against.length / 2 ? 'taken' : 'unreachable'
}
