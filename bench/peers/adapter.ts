/**
 * What a hazard or a load needs of a lock library, and nothing that only one of them has. Each
 * library runs in a process of its own, and is used as its own documentation shows it.
 */

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
