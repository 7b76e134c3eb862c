/** What must hold when all is quiet again. Every anomaly is told in words. */
import type { Redis } from 'ioredis'
import { silentLogger } from '../../src/index.ts'
import type { ClientProcesses } from './client-processes.ts'
import type { History, WriteRecord } from './history.ts'
import { openService, type ServiceOptions } from './open-service.ts'
import { FencedStore, type StoredEntry } from './store.ts'

export interface Quiet extends Omit<ServiceOptions, 'owner' | 'logger'> {
  readonly clients: ClientProcesses
  readonly history: History
  readonly storeUrl: string
  readonly resources: readonly string[]
  /** To the masters, if the locks have any. */
  readonly connections: readonly Redis[]
}

/** Ends the clients' work, and judges what they saw and left behind. */
export async function anomaliesOf(quiet: Quiet): Promise<readonly string[]> {
  const { clients, history, namespace, resources, storeUrl } = quiet
  const unended = await clients.end()
  const wedged = await wedgedResources(quiet)
  const store = new FencedStore(storeUrl, namespace)
  const disorder = await Promise.all(
    resources.map(async (resource) =>
      storeAnomalies(resource, await store.log(resource), history.writes),
    ),
  )
  store.close()
  return [
    ...unended,
    ...wedged,
    ...history.problems,
    ...history.unsettled.map((what) => `a promise of ${what} never settled`),
    ...disorder.flat(),
    ...(await immortalKeys(quiet.connections, namespace)),
  ]
}

/** A newcomer gets every resource in time. */
async function wedgedResources({ resources, ...options }: Quiet): Promise<readonly string[]> {
  const limitMs = 2 * options.maxLeaseMs + 5_000
  const startedAt = performance.now()
  const locks = await openService({ ...options, owner: 'newcomer', logger: silentLogger })
  const tries = resources.map(async (resource) => {
    const waitMs = Math.max(0, Math.ceil(limitMs - (performance.now() - startedAt)))
    try {
      await using lease = await locks.acquire(resource, { waitMs })
      return lease.remainingMs() > 0 ? [] : [`${resource}: granted without any time left`]
    } catch (error) {
      return [`${resource}: not free within ${limitMs} ms: ${String(error)}`]
    }
  })
  const wedged = (await Promise.all(tries)).flat()
  await locks.close()
  return wedged
}

/** Keys of the namespace that would stay for ever, apart from the enrolment of the master. */
async function immortalKeys(
  connections: readonly Redis[],
  namespace: string,
): Promise<readonly string[]> {
  const found = await Promise.all(
    connections.map(async (redis, index) => {
      const keys = await redis.keys(`${namespace}:*`)
      const ttls = await Promise.all(keys.map((key) => redis.pttl(key)))
      return keys
        .filter((key, at) => ttls[at] === -1 && key !== `${namespace}:master`)
        .map((key) => `master ${index + 1}: ${key} has no time to live`)
    }),
  )
  return found.flat()
}

export function storeAnomalies(
  resource: string,
  log: readonly StoredEntry[],
  writes: readonly WriteRecord[],
): readonly string[] {
  return [...storeDisorder(resource, log, writes), ...lostUpdates(resource, log, writes)]
}

/**
 * The store's own log: tokens never go back and each belongs to one lease. And nobody who still
 * trusted its lease was refused, which would mean that somebody newer had written under it.
 */
function storeDisorder(
  resource: string,
  log: readonly StoredEntry[],
  writes: readonly WriteRecord[],
): readonly string[] {
  const anomalies: string[] = []
  const leaseOf = new Map<number, string>()
  let highest = 0
  for (const { entry, fencingToken } of log) {
    if (fencingToken < highest) {
      anomalies.push(`${resource}: the store took token ${fencingToken} after ${highest}`)
    }
    highest = Math.max(highest, fencingToken)
    const lease = leaseNameOf(entry)
    const known = leaseOf.get(fencingToken) ?? lease
    leaseOf.set(fencingToken, known)
    if (known !== lease) anomalies.push(`${resource}: ${known} and ${lease} wrote with one token`)
  }
  for (const write of writes) {
    if (write.resource === resource && !write.accepted && write.trusted) {
      anomalies.push(`${resource}: ${write.lease} trusted its lease and was refused by the store`)
    }
  }
  return anomalies
}

/** Entries are `<lease>#<number>`. */
export function leaseNameOf(entry: string): string {
  return entry.slice(0, entry.lastIndexOf('#'))
}

/**
 * A set that only the lock guards: every writer reads the last entry, takes its time, and appends
 * its own with what it had read. An entry that was acknowledged under a trusted lease must have
 * been seen by every entry after it, and must be there at all.
 */
function lostUpdates(
  resource: string,
  log: readonly StoredEntry[],
  writes: readonly WriteRecord[],
): readonly string[] {
  const acknowledged = new Set(
    writes
      .filter((write) => write.resource === resource && write.accepted && write.trusted)
      .map(({ entry }) => entry),
  )
  const position = new Map(log.map(({ entry }, index) => [entry, index]))
  const missing = [...acknowledged].filter((entry) => !position.has(entry))
  const anomalies = missing.map((entry) => `${resource}: the acknowledged entry ${entry} is gone`)
  let lastAcknowledged = -1
  for (const [index, { entry, seen }] of log.entries()) {
    const seenAt = seen === '' ? -1 : (position.get(seen) ?? -1)
    if (seenAt < lastAcknowledged) {
      const lost = log[lastAcknowledged]?.entry ?? '?'
      anomalies.push(`${resource}: ${entry} was written without having seen ${lost}`)
    }
    if (acknowledged.has(entry)) lastAcknowledged = index
  }
  return anomalies
}
