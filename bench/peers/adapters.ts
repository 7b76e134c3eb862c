/**
 * What a hazard or a load needs of a lock library, and nothing that only one of them has. Each
 * library runs in a process of its own, and is used as its own documentation shows it.
 */
import { once } from 'node:events'
import { OURS, RAW } from './libraries.ts'
import { loadPeer, type Emitter, type Method } from './load.ts'
import type { PeerIoredis, PeerRedis } from './load.ts'
import { connect as raw } from './raw.ts'

/** How a client of the library is to be made. */
export interface Setup {
  /** The masters, or proxies in front of them. */
  readonly urls: readonly string[]
  /** For libraries that prefix their keys. */
  readonly namespace: string
  /** 0: one attempt. Else about how long to go on trying, with the library's own delays. */
  readonly waitMs: number
  /** How long one master may take; left to the library where this is absent. */
  readonly masterTimeoutMs?: number
  /** ioredis `commandTimeout`, for libraries that leave a limit to the connection. */
  readonly commandTimeoutMs?: number
  /** ioredis `enableAutoPipelining`. None of the libraries documents it. */
  readonly autoPipelining?: boolean
  /** A quorum below the majority, for libraries that would take one. */
  readonly quorum?: number
  /** Nobody has used these masters under this namespace yet. */
  readonly fresh?: boolean
}

export interface Held {
  readonly fencingToken?: number
  /** What the library says is left of the lease; undefined where it does not say. */
  remainingMs(): number | undefined
  /** Whether the library still calls it held. */
  isHeld(): boolean
  release(): PromiseLike<unknown>
}

export type Reason = 'taken' | 'unreachable' | 'unknown'

export interface Client {
  /** A lease's key is this and the resource. */
  readonly keyPrefix: string
  acquire(resource: string, ttlMs: number): Promise<Held>
  /** The library's way to run work under a lease that is kept alive. */
  using(
    resource: string,
    ttlMs: number,
    /** What it gives to `onLost` is called when the library says that the lease is lost. */
    work: (onLost: (lost: () => void) => void) => Promise<string>,
  ): PromiseLike<string>
  /** What a caller can tell from an error of `acquire`, by class, code or documented field. */
  reason(error: unknown): Promise<Reason> | Reason
  close(): unknown
}

/** Resolves when all masters that can be reached are. */
export type Connect = (setup: Setup) => Promise<Client>

const READY_LIMIT_MS = 1_000
const RETRY_DELAY_MS = 200
/** Bounds a dead master for redlock-universal, whose adapters wait for 5 000 ms by default. */
const UNIVERSAL_TIMEOUT_MS = 100

type Clients = readonly PeerRedis[]

/** This project as it is published, with every setting at its default. */
const ours: Connect = async ({ urls, namespace, waitMs, masterTimeoutMs, quorum, fresh }) => {
  const built = await import('../built.ts')
  const redlock = new built.Redlock({
    ...{ masters: urls, namespace, logger: built.silentLogger },
    ...(masterTimeoutMs !== undefined && { masterTimeoutMs }),
    ...(quorum !== undefined && { quorum }), // There is no such option; it is refused.
  })
  await redlock.ready()
  if (fresh === true) await redlock.bootstrap({ newFleet: true })
  return {
    keyPrefix: `${namespace}:lease:`,
    async acquire(resource, leaseMs) {
      const lease = await redlock.acquire(resource, { leaseMs, waitMs })
      return {
        fencingToken: lease.fencingToken,
        remainingMs: () => lease.remainingMs(),
        isHeld: () => lease.remainingMs() > 0,
        release: () => lease.release(),
      }
    },
    using: (resource, leaseMs, work) =>
      redlock.using(resource, { leaseMs, waitMs }, ({ signal }) => work(whenAborted(signal))),
    reason(error) {
      if (error instanceof built.ResourceTakenError) return 'taken'
      return error instanceof built.QuorumUnreachableError ? 'unreachable' : 'unknown'
    },
    close: () => redlock.close(),
  }
}

interface Redlock4 {
  readonly default: new (
    clients: Clients,
    options: object,
  ) => Emitter & {
    readonly lock: Method<{ readonly expiration: number; readonly unlock: Method }>
    disposer(resource: string, ttlMs: number, onError: () => void): object
  }
}

interface Bluebird {
  readonly default: { readonly using: Method<string> }
}

/** 4.2.0, which npm calls `latest`. No renewal of its own; `using` is Bluebird's. */
const redlock4: Connect = async (setup) => {
  const { default: Redlock } = await loadPeer<Redlock4>('redlock-4')
  const { default: bluebird } = await loadPeer<Bluebird>('bluebird')
  const { clients, ...base } = await connectAll(setup)
  const redlock = new Redlock(clients, retriesFor(setup))
  redlock.on('clientError', () => undefined)
  return {
    ...base,
    async acquire(resource, ttlMs) {
      const lock = await redlock.lock(base.keyPrefix + resource, ttlMs)
      return heldUntil(lock.expiration, () => lock.unlock())
    },
    using(resource, ttlMs, work) {
      const disposer = redlock.disposer(base.keyPrefix + resource, ttlMs, () => undefined)
      return bluebird.using(disposer, () => work(() => undefined))
    },
    reason: () => 'unknown', // LockError for both; `attempts` is only a number.
  }
}

type Redlock5 = new (
  clients: Clients,
  settings: object,
) => {
  readonly acquire: Method<{ readonly expiration: number; readonly release: Method }>
  readonly using: Method<string>
}

/** The fork has the same names as redlock 5, and the same ways to ask why it failed. */
async function redlock5(Redlock: Redlock5, setup: Setup): Promise<Client> {
  const { clients, ...base } = await connectAll(setup)
  const redlock = new Redlock(clients, retriesFor(setup))
  return {
    ...base,
    async acquire(resource, ttlMs) {
      const lock = await redlock.acquire([base.keyPrefix + resource], ttlMs)
      return heldUntil(lock.expiration, () => lock.release())
    },
    using: (resource, ttlMs, work) =>
      redlock.using([base.keyPrefix + resource], ttlMs, (signal: AbortSignal) =>
        work(whenAborted(signal)),
      ),
    reason: reasonOfVotes,
  }
}

/**
 * "Per-attempt and per-client stats (including errors) are made available on the `attempt`
 * property" (README).
 */
async function reasonOfVotes(error: unknown): Promise<Reason> {
  if (!(error instanceof Error) || !('attempts' in error)) return 'unknown'
  const attempts = error.attempts as readonly Promise<{ votesAgainst: Map<unknown, Error> }>[]
  const against = [...((await Promise.all(attempts)).at(-1)?.votesAgainst.values() ?? [])]
  const locked = against.filter(({ name, constructor }) =>
    [name, constructor.name].includes('ResourceLockedError'),
  )
  return locked.length > against.length / 2 ? 'taken' : 'unreachable'
}

interface Universal {
  readonly IoredisAdapter: new (client: PeerRedis, options: { timeout: number }) => object
  createRedlock(config: object): {
    readonly acquire: Method<{ readonly acquiredAt: number; readonly ttl: number }>
    readonly release: Method
    readonly using: Method<string>
  }
}

const universal: Connect = async (setup) => {
  const { quorum, masterTimeoutMs: timeout = UNIVERSAL_TIMEOUT_MS } = setup
  const peer = await loadPeer<Universal>('redlock-universal')
  const { clients, ...base } = await connectAll(setup)
  const adapters = clients.map((redis) => new peer.IoredisAdapter(redis, { timeout }))
  const { retryCount: retryAttempts } = retriesFor(setup)
  const lockOn = (resource: string, ttl: number) => {
    const config = { adapters, key: base.keyPrefix + resource, ttl, retryAttempts }
    return peer.createRedlock({ ...config, ...(quorum !== undefined && { quorum }) })
  }
  return {
    ...base,
    async acquire(resource, ttlMs) {
      const lock = lockOn(resource, ttlMs)
      const handle = await lock.acquire()
      // The handle has no expiry. The library counts the time of the last attempt itself.
      return heldUntil(handle.acquiredAt + handle.ttl, () => lock.release(handle))
    },
    using: (resource, ttlMs, work) =>
      lockOn(resource, ttlMs).using((signal: AbortSignal) => work(whenAborted(signal))),
    /** "LockAcquisitionError: lock is held by another process" (README). */
    reason: (error) =>
      error instanceof Error && error.name === 'LockAcquisitionError' ? 'taken' : 'unknown',
  }
}

type Mutex = Record<'acquire' | 'release', Method> & { readonly isAcquired: boolean }

interface Semaphore {
  readonly RedlockMutex: new (clients: Clients, key: string, options: object) => Mutex
}

/** RedlockMutex, with its renewal and `onLockLost`. */
const semaphore: Connect = async (setup) => {
  const { namespace, waitMs } = setup
  const { RedlockMutex } = await loadPeer<Semaphore>('redis-semaphore')
  const { clients, ...base } = await connectAll(setup)
  const patience = waitMs === 0 ? { acquireAttemptsLimit: 1 } : { acquireTimeout: waitMs }
  const acquired = async (resource: string, options: object): Promise<Mutex> => {
    const key = base.keyPrefix + resource
    const mutex = new RedlockMutex(clients, key, { ...patience, ...options })
    await mutex.acquire()
    return mutex
  }
  return {
    ...base,
    keyPrefix: `mutex:${namespace}:`,
    async acquire(resource, lockTimeout) {
      const onLockLost = (): void => undefined
      const mutex = await acquired(resource, { lockTimeout, refreshInterval: 0, onLockLost })
      return {
        remainingMs: () => undefined, // It does not say.
        isHeld: () => mutex.isAcquired,
        release: () => mutex.release(),
      }
    },
    async using(resource, lockTimeout, work) {
      const listeners: (() => void)[] = []
      const onLockLost = (): void => {
        for (const lost of listeners) lost()
      }
      const mutex = await acquired(resource, { lockTimeout, onLockLost })
      try {
        return await work((lost) => listeners.push(lost))
      } finally {
        await mutex.release()
      }
    },
    reason: () => 'unknown', // TimeoutError for both.
  }
}

export const adapters: Readonly<Record<string, Connect>> = {
  ...{ [OURS]: ours, [RAW]: raw, 'redlock-4': redlock4 },
  'redlock-5': async (setup) =>
    redlock5((await loadPeer<{ default: Redlock5 }>('redlock-5')).default, setup),
  sesamecare: async (setup) =>
    redlock5((await loadPeer<{ Redlock: Redlock5 }>('@sesamecare-oss/redlock')).Redlock, setup),
  ...{ 'redlock-universal': universal, 'redis-semaphore': semaphore },
}

/** A lease of which the library says when it ends. */
function heldUntil(endsAt: number, release: Held['release']): Held {
  const remainingMs = (): number => endsAt - Date.now()
  return { remainingMs, isHeld: () => remainingMs() > 0, release }
}

/** What `using` calls where the library gives its work a signal. */
const whenAborted = (signal: AbortSignal) => (lost: () => void) => {
  signal.addEventListener('abort', lost)
}

/** One client for each master with ioredis' defaults, as each of the libraries documents it. */
async function connectAll({ urls, namespace, commandTimeoutMs, autoPipelining }: Setup) {
  const { Redis } = await loadPeer<PeerIoredis>('ioredis')
  const options = {
    ...(commandTimeoutMs !== undefined && { commandTimeout: commandTimeoutMs }),
    ...(autoPipelining !== undefined && { enableAutoPipelining: autoPipelining }),
  }
  const signal = AbortSignal.timeout(READY_LIMIT_MS)
  const connecting = urls.map(async (url) => {
    const client = new Redis(url, options)
    client.on('error', () => undefined) // Masters are down on purpose here.
    await once(client, 'ready', { signal }).catch(() => undefined)
    return client
  })
  const clients = await Promise.all(connecting)
  const close = (): void => {
    for (const redis of clients) redis.disconnect()
  }
  return { clients, keyPrefix: `${namespace}:`, close }
}

/** Has tried for `waitMs`, by the settings of node-redlock. */
function retriesFor({ waitMs }: Setup) {
  const retryCount = Math.ceil(waitMs / RETRY_DELAY_MS)
  return { retryCount, retryDelay: RETRY_DELAY_MS, retryJitter: 100 }
}
