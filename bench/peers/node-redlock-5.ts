/** redlock 5 and its fork have the same names, and the same ways to ask why it failed. */
import * as common from './adapter.ts'
import type { PeerRedis } from './load.ts'

interface Lock {
  readonly expiration: number
  release(): Promise<unknown>
}

interface Vote {
  readonly votesAgainst: ReadonlyMap<unknown, Error>
}

export type RedlockClass = new (
  clients: readonly PeerRedis[],
  settings: object,
) => {
  acquire(resources: readonly string[], ttlMs: number): Promise<Lock>
  using<Result>(
    resources: readonly string[],
    ttlMs: number,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result>
}

export async function connectTo(
  Redlock: RedlockClass,
  setup: common.Setup,
): Promise<common.Client> {
  const clients = await common.connectAll(setup)
  const redlock = new Redlock(clients, common.retriesFor(setup))
  const keyPrefix = `${setup.namespace}:`
  return {
    keyPrefix,
    async acquire(resource, ttlMs) {
      const lock = await redlock.acquire([keyPrefix + resource], ttlMs)
      return common.heldUntil(lock.expiration, () => lock.release())
    },
    using: (resource, ttlMs, work) =>
      redlock.using([keyPrefix + resource], ttlMs, (signal) => work(common.whenAborted(signal))),
    reason,
    close: () => common.disconnectAll(clients),
  }
}

/**
 * "Per-attempt and per-client stats (including errors) are made available on the `attempt`
 * property" (README).
 */
async function reason(error: unknown): Promise<common.Reason> {
  if (!(error instanceof Error) || !('attempts' in error)) return 'unknown'
  const votes = await Promise.all(error.attempts as readonly Promise<Vote>[])
  const against = [...(votes.at(-1)?.votesAgainst.values() ?? [])]
  const locked = against.filter(({ name, constructor }) =>
    [name, constructor.name].includes('ResourceLockedError'),
  )
  return locked.length > against.length / 2 ? 'taken' : 'unreachable'
}
