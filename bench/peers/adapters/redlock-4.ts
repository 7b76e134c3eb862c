/**
 * redlock 4.2.0, the last release that npm calls `latest`. No renewal of its own; `using` is
 * Bluebird's.
 */
import { connectAll, disconnectAll, heldUntil, retriesFor, type Connect } from '../adapter.ts'
import { loadPeer, type PeerRedis } from '../load.ts'

interface Lock {
  readonly expiration: number
  unlock(): PromiseLike<void>
}

interface Peer {
  readonly default: new (
    clients: readonly PeerRedis[],
    options: object,
  ) => {
    on(event: 'clientError', listener: (error: Error) => void): void
    lock(resource: string, ttlMs: number): PromiseLike<Lock>
    disposer(resource: string, ttlMs: number, onError: (error: Error) => void): object
  }
}

interface Bluebird {
  readonly default: {
    using<Result>(disposer: object, work: () => Promise<Result>): PromiseLike<Result>
  }
}

export const connect: Connect = async (setup) => {
  const { default: Redlock } = await loadPeer<Peer>('redlock-4')
  const { default: bluebird } = await loadPeer<Bluebird>('bluebird')
  const clients = await connectAll(setup)
  const redlock = new Redlock(clients, retriesFor(setup))
  redlock.on('clientError', () => undefined)
  const keyPrefix = `${setup.namespace}:`
  return {
    keyPrefix,
    async acquire(resource, ttlMs) {
      const lock = await redlock.lock(keyPrefix + resource, ttlMs)
      return heldUntil(lock.expiration, () => lock.unlock())
    },
    using(resource, ttlMs, work) {
      const disposer = redlock.disposer(keyPrefix + resource, ttlMs, () => undefined)
      return bluebird.using(disposer, () => work(() => undefined))
    },
    reason: () => 'unknown', // LockError for both; `attempts` is only a number.
    close: () => disconnectAll(clients),
  }
}
