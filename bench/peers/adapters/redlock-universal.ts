/**
 * redlock-universal; its adapters' own `timeout` (default 5 000 ms) is set, because it bounds a
 * dead master.
 */
import type { Adapter, Held, Reason } from '../adapter.ts'
import {
  connectAll,
  disconnectAll,
  loadPeer,
  peerVersion,
  retriesFor,
  type PeerRedis,
} from '../load.ts'

interface Handle {
  readonly acquiredAt: number
  readonly ttl: number
}

interface Lock {
  acquire(): Promise<Handle>
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
    return {
      async acquire(resource, ttlMs) {
        const lock = lockOn(resource, ttlMs)
        return heldBy(lock, await lock.acquire())
      },
      using: (resource, ttlMs, work) =>
        lockOn(resource, ttlMs).using((signal) =>
          work((lost) => {
            signal.addEventListener('abort', lost)
          }),
        ),
      reason,
      close: () => disconnectAll(clients),
    }
  },
}

function heldBy(lock: Lock, handle: Handle): Held {
  // The handle has no expiry. The library counts the time of the last attempt itself.
  const remainingMs = (): number => handle.acquiredAt + handle.ttl - Date.now()
  return {
    remainingMs,
    isHeld: () => remainingMs() > 0,
    release: () => lock.release(handle),
  }
}

/** "LockAcquisitionError: lock is held by another process" (README). */
function reason(error: unknown): Promise<Reason> {
  const name = error instanceof Error ? error.name : ''
  return Promise.resolve(name === 'LockAcquisitionError' ? 'taken' : 'unknown')
}
