/** The keys on one master. Each lives on its own server, so no hash tags are needed. */
export interface Keyspace {
  /** Holder's token, expires with the lease. */
  lease(resource: string): string
  /** The fencing counter of a resource. */
  fence(resource: string): string
  /** Who waits for the resource, in the order in which they should get it. */
  waiters(resource: string): string
  /** After a release and for a moment: the waiters that the resource is reserved for. */
  next(resource: string): string
  /** The channel on which releases are announced. */
  readonly releases: string
  /** The master's enrolment: run id, longest lease, and the time from which it may grant. */
  readonly master: string
  /** Present while an abandoned token must not be granted any more. */
  tombstone(token: string): string
  /** Present while there may be waiters, a reservation or a tombstone. */
  readonly flag: string
  /** Matches every lease key, for SCAN. */
  readonly leasePattern: string
}

export function keyspace(namespace: string): Keyspace {
  return {
    lease: (resource) => `${namespace}:lease:${resource}`,
    fence: (resource) => `${namespace}:fence:${resource}`,
    waiters: (resource) => `${namespace}:wait:${resource}`,
    next: (resource) => `${namespace}:next:${resource}`,
    releases: `${namespace}:released`,
    master: `${namespace}:master`,
    tombstone: (token) => `${namespace}:tomb:${token}`,
    flag: `${namespace}:flag`,
    leasePattern: `${namespace.replace(/[\\*?[\]]/g, '\\$&')}:lease:*`,
  }
}
