/** What `worker/` needs of a lock service. `Redlock` is one; another may stand in its place. */
import type { AcquireOptions, LeaseOptions } from './lease-options.ts'
import type { Inspection } from './inspection.ts'
import type { Lease } from './lease.ts'
import type { AcquireOutcome } from './outcome.ts'

/**
 * What a lock service may lack. `slots`: a worker with several slots refuses such a service.
 * `announcements`: a waiting `acquire` only polls.
 */
export type Capability = 'slots' | 'announcements'

/**
 * What a `LockedWorker` takes leases from: `Redlock`, `PostgresLocks`, `EtcdLocks`,
 * `ZooKeeperLocks`, or your own.
 */
export interface LockService {
  /** Resources of different namespaces have nothing to do with each other. */
  readonly namespace: string
  /** Length of a lease when a call does not say. */
  readonly leaseMs: number
  /** The longest lease that a call may ask for. */
  readonly maxLeaseMs: number
  /** Absent or empty where nothing is missing. */
  readonly lacks?: readonly Capability[]
  /** `host:port` of each of its Redis servers; none of them should hold the queue as well. */
  readonly servers?: readonly string[]
  /** Rejects, saying what is wrong with which server, when no lease could be had at all. */
  ready(): Promise<unknown>
  /** One attempt at all or none. It rejects only for bad arguments or after close. */
  tryAcquire(resource: string | readonly string[], options?: LeaseOptions): Promise<AcquireOutcome>
  /** Tries until granted, for `waitMs`. It throws the last refusal, or the signal's reason. */
  acquire(resource: string | readonly string[], options?: AcquireOptions): Promise<Lease>
  /** Runs `routine` under a lease that is kept alive, and releases it afterwards. */
  using<Result>(
    resource: string | readonly string[],
    options: AcquireOptions,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result>
  /**
   * Ends a lease and goes on with a successor, which has a larger fencing token and what is left of
   * the trust. No server is asked. Undefined, and nothing has happened, where that cannot be; a
   * worker then releases and acquires anew, as it does where the service has no `handOver`.
   */
  handOver?(lease: Lease, options?: Omit<LeaseOptions, 'slots'>): Lease | undefined
  /** For which of the resources clients wait, if known. Without it, a burst ends with a release. */
  waitedFor?(resources: readonly string[]): Promise<readonly string[] | undefined>
  /** Who holds a resource. */
  inspect?(resource: string): Promise<Inspection>
  /** Loses the leases that are still held, releases them, and disconnects. */
  close(): Promise<void>
}
