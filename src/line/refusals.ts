/** What the errors of the queue's Redis and its clients say. */

/** A server or a cluster that refuses for a time: also a script that it was just made to forget. */
export const PASSING: RegExp =
  /^Too many Cluster redirections|^ERR max number of clients|^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|OOM|MISCONF|NOREPLICAS|BUSY|NOSCRIPT)\b/

export const NO_LOGIN: RegExp = /^(NOAUTH|WRONGPASS)\b/

/** Also a command within a script, of which Redis 7.0 and later releases say it differently. */
export const DENIES: RegExp =
  /^(NOAUTH|WRONGPASS|NOPERM)\b|^(ERR )?(The user executing the script can't|ACL failure in script)/

/**
 * The connection is away, and it comes again. What the server has done is not known. Of ioredis and
 * node-redis. Where a connection was closed on purpose, they say something else.
 */
export const UNANSWERED: RegExp =
  /^(Reached the max retries|Command timed out|Stream isn't writeable|Cluster isn't ready|None of startup nodes|Failed to refresh slots|Socket closed unexpectedly|The client is offline|Connection timeout)|\bE(CONN\w+|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH)\b/

export function says(error: unknown, ...what: readonly RegExp[]): boolean {
  return error instanceof Error && what.some((text) => text.test(error.message))
}
