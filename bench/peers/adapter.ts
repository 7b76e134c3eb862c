/**
 * What a hazard needs of a lock library, and nothing that only one of them has. Each adapter runs
 * in a process of its own and uses its library as the library's own
 * documentation shows it.
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
  /**
   * ioredis `enableAutoPipelining`, for libraries that send what the connection sends. None of them
   * documents it.
   */
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
  release(): Promise<unknown>
}

export type Reason = 'taken' | 'unreachable' | 'unknown'

export interface Client {
  acquire(resource: string, ttlMs: number): Promise<Held>
  /**
   * The library's way to run work under a lease that is kept alive; `lost` is called when it says
   * so.
   */
  using<Result>(
    resource: string,
    ttlMs: number,
    work: (onLost: (lost: () => void) => void) => Promise<Result>,
  ): Promise<Result>
  /** What a caller can tell from an error of `acquire`, by class, code or documented field. */
  reason(error: unknown): Promise<Reason>
  close(): Promise<unknown>
}

export interface Adapter {
  /** `package@version` of everything that takes part. */
  readonly versions: readonly string[]
  /** A lease's key is this and the resource. */
  keyPrefix(setup: Setup): string
  /** Resolves when all masters that can be reached are. */
  connect(setup: Setup): Promise<Client>
}
