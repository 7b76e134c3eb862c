/** The keys on one master. Each lives on its own server, so no hash tags are needed. */
export type Keyspace = ReturnType<typeof keyspace>

export const keyspace = (namespace: string) => ({
  /** Holder's token, expires with the lease. */
  lease: (resource: string) => `${namespace}:lease:${resource}`,
  /** The fencing counter of a resource. */
  fence: (resource: string) => `${namespace}:fence:${resource}`,
  /** Who waits for the resource, in the order in which they should get it. */
  waiters: (resource: string) => `${namespace}:wait:${resource}`,
  /** After a release and for a moment: the waiters that the resource is reserved for. */
  next: (resource: string) => `${namespace}:next:${resource}`,
  /** The channel on which releases are announced. */
  releases: `${namespace}:released`,
  /** The master's enrolment: run id, longest lease, and the time from which it may grant. */
  master: `${namespace}:master`,
  /** Present while an abandoned token must not be granted any more. */
  tombstone: (token: string) => `${namespace}:tomb:${token}`,
  /** Present while there may be waiters, a reservation or a tombstone. */
  flag: `${namespace}:flag`,
  /** Matches every lease key, for SCAN. */
  leasePattern: `${namespace.replace(/[\\*?[\]]/g, '\\$&')}:lease:*`,
})
