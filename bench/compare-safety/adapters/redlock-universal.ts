/**
 * redlock-universal; its adapters' own `timeout` (default 5 000 ms) is set, because it bounds a
 * dead master.
 */
import type { Adapter, Client, Held, Reason } from '../adapter.ts'
import { connectAll, loadPeer, peerVersion, retriesFor, type PeerRedis } from '../../peers/load.ts'

interface Handle {
  readonly acquiredAt: number
  readonly ttl: number
  readonly metadata: { readonly acquisitionTime: number }
}

interface Lock {
  acquire(): Promise<Handle>
  extend(handle: Handle, ttlMs: number): Promise<boolean>
  release(handle: Handle): Promise<boolean>
  using<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result>
}

interface Peer {
  readonly IoredisAdapter: new (client: PeerRedis, options: { timeout: number }) => object
  createRedlock(config: {
    adapters: readonly object[]
    key: string
    ttl: number
    retryAttempts: number
    quorum?: number
  }): Lock
}

const RETRY_DELAY_MS = 200
const TIMEOUT_MS = 100

export const adapter: Adapter = {
  versions: await Promise.all(['redlock-universal', 'ioredis'].map(peerVersion)),
  keyPrefix: ({ namespace }) => `${namespace}:`,
  async connect(setup) {
    const { namespace, waitMs, quorum, masterTimeoutMs } = setup
    const peer = await loadPeer<Peer>('redlock-universal')
    const clients = await connectAll(setup)
    const options = { timeout: masterTimeoutMs ?? TIMEOUT_MS }
    const adapters = clients.map((redis) => new peer.IoredisAdapter(redis, options))
    const lockOn = (resource: string, ttl: number): Lock =>
      peer.createRedlock({
        adapters,
        key: `${namespace}:${resource}`,
        ttl,
        retryAttempts: retriesFor(waitMs, RETRY_DELAY_MS),
        ...(quorum !== undefined && { quorum }),
      })
    const client: Client = {
      async acquire(resource, ttlMs) {
        const lock = lockOn(resource, ttlMs)
        return new HeldLock(lock, await lock.acquire())
      },
      using: (resource, ttlMs, work) =>
        lockOn(resource, ttlMs).using((signal) =>
          work((lost) => {
            signal.addEventListener('abort', lost)
          }),
        ),
      reason,
      close: () =>
        Promise.resolve(
          clients.map((redis) => {
            redis.disconnect()
          }),
        ),
    }
    return client
  },
}

class HeldLock implements Held {
  readonly #lock: Lock
  readonly #handle: Handle

  constructor(lock: Lock, handle: Handle) {
    this.#lock = lock
    this.#handle = handle
  }

  /**
   * The handle has no expiry, only these three; the library counts the time of the last attempt
   * itself.
   */
  remainingMs(): number {
    return this.#handle.acquiredAt + this.#handle.ttl - Date.now()
  }

  isHeld(): boolean {
    return this.remainingMs() > 0
  }

  async extend(): Promise<void> {
    if (!(await this.#lock.extend(this.#handle, this.#handle.ttl))) throw new Error('Not extended')
  }

  release(): Promise<unknown> {
    return this.#lock.release(this.#handle)
  }
}

/** "LockAcquisitionError: lock is held by another process" (README). */
function reason(error: unknown): Promise<Reason> {
  const name = error instanceof Error ? error.name : ''
  return Promise.resolve(name === 'LockAcquisitionError' ? 'taken' : 'unknown')
}
