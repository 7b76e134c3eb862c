/**
 * redlock-universal; its adapters' own `timeout` (default 5 000 ms) is set, because it bounds a
 * dead master.
 */
import * as common from '../adapter.ts'
import { loadPeer, type PeerRedis } from '../load.ts'

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
  createRedlock(config: object): Lock
}

const TIMEOUT_MS = 100

export const connect: common.Connect = async (setup) => {
  const { quorum, masterTimeoutMs } = setup
  const peer = await loadPeer<Peer>('redlock-universal')
  const clients = await common.connectAll(setup)
  const options = { timeout: masterTimeoutMs ?? TIMEOUT_MS }
  const adapters = clients.map((redis) => new peer.IoredisAdapter(redis, options))
  const keyPrefix = `${setup.namespace}:`
  const { retryCount: retryAttempts } = common.retriesFor(setup)
  const lockOn = (resource: string, ttl: number): Lock => {
    const config = { adapters, key: keyPrefix + resource, ttl, retryAttempts }
    return peer.createRedlock({ ...config, ...(quorum !== undefined && { quorum }) })
  }
  return {
    keyPrefix,
    async acquire(resource, ttlMs) {
      const lock = lockOn(resource, ttlMs)
      const handle = await lock.acquire()
      // The handle has no expiry. The library counts the time of the last attempt itself.
      return common.heldUntil(handle.acquiredAt + handle.ttl, () => lock.release(handle))
    },
    using: (resource, ttlMs, work) =>
      lockOn(resource, ttlMs).using((signal) => work(common.whenAborted(signal))),
    /** "LockAcquisitionError: lock is held by another process" (README). */
    reason: (error) =>
      error instanceof Error && error.name === 'LockAcquisitionError' ? 'taken' : 'unknown',
    close: () => common.disconnectAll(clients),
  }
}
