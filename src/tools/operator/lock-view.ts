/** The locks as an operator looks at them: a fleet of masters, or a lock service besides Redis. */
import type { Finding } from '../../services/service-health.ts'
import type { LockClient } from '../../services/lock-client.ts'
import { messageOf } from '../../message-of.ts'
import { quorumOf } from '../../redlock/quorum.ts'
import type { QueueServer } from './queue-server.ts'
import { MAX_SLOTS } from '../../slots.ts'
import { diagnose, type Diagnosis, type MasterHealth } from './diagnosis.ts'
import type { FleetProbe } from './fleet-probe.ts'
import { globEscape, globPattern } from './glob.ts'
import {
  liveLeases,
  slotsOf,
  checkLeaks,
  type LeaseSearch,
  type LiveLease,
  type LiveLeases,
} from './live-leases.ts'
import { checkQueue } from './server-checks.ts'
import { viewResource, type ResourceView } from './resource-view.ts'
import { surveyFleet } from './survey.ts'
import { counted } from '../../counted.ts'

export interface LockView {
  /**
   * @param queue the queue's Redis, where it is to be looked at too.
   * @param maxLeaseMs as clients have it; by default, as most masters have it stored.
   */
  diagnose(queue?: QueueServer, maxLeaseMs?: number): Promise<Diagnosis>
  /** Keys that never expire. It scans, so it is not for every look. */
  leaks(): Promise<readonly Finding[]>
  leases(search: LeaseSearch): Promise<LiveLeases>
  readonly resource: (resource: string) => Promise<ResourceView>
  slots(resource: string): Promise<readonly LiveLease[]>
}

export function fleetView(fleet: FleetProbe): LockView {
  return {
    diagnose: async (queue, maxLeaseMs) => diagnose(await surveyFleet(fleet, queue), maxLeaseMs),
    leaks: () => checkLeaks(fleet),
    leases: (search) => liveLeases(fleet, search),
    resource: (resource) => viewResource(fleet, resource),
    slots: (resource) => slotsOf(fleet, resource),
  }
}

/** What is needed of `PostgresLocks`, `EtcdLocks`, `ZooKeeperLocks`. */
export type InspectedLocks = Pick<
  LockClient,
  'health' | 'inspect' | 'leases' | 'namespace' | 'status'
>

/** More are not listed. */
const MAX_LISTED = 10_000

/** `PostgreSQL`, `etcd`, … */
export function serviceName(locks: Pick<InspectedLocks, 'status'>): string {
  return locks.status().masters[0]?.name ?? 'the lock service'
}

/** Leases and resources of a service are shown with the service as the only master. */
export function serviceView(locks: InspectedLocks): LockView {
  return {
    diagnose: (queue) => diagnoseService(locks, queue),
    leaks: () => Promise.resolve([]),
    leases: (search) => leasesOf(locks, search),
    resource: (resource) => resourceOf(locks, resource),
    slots: async (resource) => {
      const match = `${globEscape(resource)}#*`
      const { leases } = await leasesOf(locks, { match, limit: MAX_SLOTS })
      return leases.filter((lease) => /#\d+$/.test(lease.resource))
    },
  }
}

async function resourceOf(locks: InspectedLocks, resource: string): Promise<ResourceView> {
  const service = serviceName(locks)
  try {
    const inspection = await locks.inspect(resource)
    const state = inspection.holder === undefined ? 'free' : 'held'
    return { ...inspection, service, state, quorum: 1, answered: 1, unreachable: [] }
  } catch (error) {
    const masters = unreached(service, error)
    const view = { resource, service, masters, unreachable: masters, quorum: 1, answered: 0 }
    const unknown = `${service} does not answer: ${masters[0].problem}`
    return { ...view, state: 'unknown', unknown }
  }
}

async function leasesOf(
  locks: InspectedLocks,
  { match = '*', limit }: LeaseSearch,
): Promise<LiveLeases> {
  const service = serviceName(locks)
  const coverage = { service, quorum: 1, masters: 1 }
  try {
    const listed = await locks.leases(match === '*' ? limit + 1 : MAX_LISTED)
    const pattern = globPattern(match)
    const found = listed
      .filter(({ resource }) => pattern.test(resource))
      .map((lease): LiveLease => ({ ...lease, state: 'held', votes: 1 }))
      .sort((a, b) => (a.resource < b.resource ? -1 : 1))
    const truncated = listed.length >= MAX_LISTED || found.length > limit
    return { leases: found.slice(0, limit), ...coverage, unreachable: [], truncated }
  } catch (error) {
    return { leases: [], ...coverage, unreachable: unreached(service, error), truncated: false }
  }
}

/** The service as the only master, which does not answer, and why. */
function unreached(
  service: string,
  error: unknown,
): readonly [{ master: string; problem: string }] {
  return [{ master: service, problem: messageOf(error).replace(`${service} did not`, 'no') }]
}

/**
 * The members of a cluster count as its masters: all of the services here need a majority of them.
 */
export async function diagnoseService(
  locks: InspectedLocks,
  queue?: QueueServer,
): Promise<Diagnosis> {
  const [health, ofQueue = []] = await Promise.all([locks.health(), queue?.surveys()])
  const findings = [...health.findings, ...ofQueue.flatMap((node) => checkQueue(node, []))]
  const masters = health.servers.map(({ server, problem }): MasterHealth => ({
    ...{ master: server, state: problem === undefined ? 'votes' : 'unreachable' },
    ...{ survey: undefined, clockOffMs: undefined },
  }))
  const quorum = quorumOf(masters.length)
  const up = masters.filter(({ state }) => state === 'votes').length
  const voting = health.problem === undefined ? up : Math.min(up, quorum - 1)
  const healthy = voting >= quorum && findings.every(({ severity }) => severity === 'note')
  return { ...health, findings, masters, quorum, voting, margin: voting - quorum, healthy }
}

/** Whether leases are granted, and how many servers may still fail, in one line. */
export interface FleetVerdict {
  readonly state: 'good' | 'soon' | 'bad'
  readonly text: string
}

export function verdictOf(found: Diagnosis): FleetVerdict {
  const { margin, voting, masters, service } = found
  const isWorse = voting < masters.length || (margin === 0 && service === undefined)
  const state = margin < 0 ? 'bad' : isWorse ? 'soon' : 'good'
  return { state, text: textOf(found) }
}

function textOf({ voting, masters, quorum, margin, service, problem }: Diagnosis): string {
  const size = masters.length
  if (service !== undefined) {
    if (problem !== undefined) return `NO LEASES from ${service}: ${problem}`
    const answer = `: ${voting} of ${counted(size, 'server answers', 'servers answer')}`
    return `${service} grants leases${size === 1 ? '' : answer}`
  }
  const votes = `${voting} of ${counted(size, 'master votes', 'masters vote')}, ${counted(quorum, 'is', 'are')} needed`
  if (margin < 0) return `${votes}; no lease can be granted`
  return `${votes}; ${margin === 0 ? 'none may fail' : `${margin} more may fail`}`
}
