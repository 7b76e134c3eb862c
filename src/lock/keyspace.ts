/** The keys on one master. Each lives on its own server, so no hash tags are needed. */
export interface Keyspace {
  /** Holder's token, expires with the lease. */
  lease(resource: string): string
  /** The fencing counter of a resource. */
  fence(resource: string): string
  /** Present while somebody waits for the resource: its next release is announced. */
  waiters(resource: string): string
  /** The channel on which releases are announced, by resource name. */
  readonly releases: string
  /** The master's enrolment: run id, longest lease, and the time from which it may grant. */
  readonly master: string
  /** Present while an abandoned token must not be granted any more. */
  tombstone(token: string): string
  /** Matches every lease key, for SCAN. */
  readonly leasePattern: string
}

export function keyspace(namespace: string): Keyspace {
  return {
    lease: (resource) => `${namespace}:lease:${resource}`,
    fence: (resource) => `${namespace}:fence:${resource}`,
    waiters: (resource) => `${namespace}:wait:${resource}`,
    releases: `${namespace}:released`,
    master: `${namespace}:master`,
    tombstone: (token) => `${namespace}:tomb:${token}`,
    leasePattern: `${namespace.replace(/[\\*?[\]]/g, '\\$&')}:lease:*`,
  }
}
