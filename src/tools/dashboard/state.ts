/**
 * What the page shows, as one JSON value, no larger for a large fleet than for a small one. Pure.
 */
import { grouped, type Diagnosis, type MasterHealth } from '../operator/diagnosis.ts'
import { hasQuorum, tooFewAnswer } from '../operator/fleet-probe.ts'
import type { LiveLease, LiveLeases } from '../operator/live-leases.ts'
import type { JobsByResource, JobSince } from '../operator/jobs.ts'
import { verdictOf, type FleetVerdict } from '../operator/lock-view.ts'
import { redacted } from '../../redact.ts'
import type { Done } from './actions.ts'
import type { ResolvedOptions } from './options.ts'
import type { SearchResult, Snapshot } from './snapshots.ts'

export interface DashboardState
  extends Omit<Snapshot, 'diagnosis' | 'leases'>, Viewer, Pick<SearchResult, 'jobs'> {
  readonly everyMs: number
  readonly namespace: string
  readonly search: string
  /** Where Bull Board is mounted; null where that is not known. */
  readonly bullBoard: string | null
  readonly fleet: Pick<Diagnosis, 'quorum' | 'voting' | 'margin' | 'healthy' | 'findings'> & {
    /** The name of a lock service besides Redis; null for a fleet of masters. */
    readonly service: string | null
    readonly verdict: FleetVerdict
    readonly masters: readonly MasterRow[]
  }
  readonly leases: Pick<View, 'sort'> &
    Pick<LiveLeases, 'masters' | 'truncated'> &
    Omit<LeasePage, 'rows'> & {
      readonly rows: readonly (LiveLease & { readonly job: JobSince | undefined })[]
      /** Why the holders are not known; null where they are. */
      readonly problem: string | null
      /** The search, among those that were looked at. */
      readonly matching: number
    }
}

interface Viewer {
  /** What operators did last, the latest first. */
  readonly done: readonly Done[]
  /** The name of the viewer who may act; null for one who may only look. */
  readonly operator: string | null
  /** A token may be typed in to act. */
  readonly hasOperatorLogin: boolean
}

interface MasterRow extends Pick<MasterHealth, 'master' | 'state' | 'clockOffMs'> {
  readonly version: string | undefined
  /** Of a server of a lock service: `leader`, `primary`, … */
  readonly role: string | undefined
  /** Of a master. */
  readonly roundTripMs: number | undefined
  readonly uptimeMs: number | undefined
}

/** As long as a resource's name may be. */
export const MAX_NAME = 512
/** The one that needs attention comes first. Leases come in the order of their resources. */
const ORDERS: Readonly<Record<LeaseSort, (a: LiveLease, b: LiveLease) => number>> = {
  resource: () => 0,
  holder: (a, b) => (a.holder < b.holder ? -1 : a.holder > b.holder ? 1 : 0),
  left: (a, b) => a.freeInMs - b.freeInMs,
  votes: (a, b) => a.votes - b.votes,
}
type LeaseSort = 'resource' | 'holder' | 'left' | 'votes'

export interface View {
  readonly search: string
  readonly sort: LeaseSort
  /** From 1. */
  readonly page: number
}

export function viewIn(query: URLSearchParams): View {
  const page = Number(query.get('page'))
  const sort = query.get('sort') ?? ''
  return {
    search: (query.get('search') ?? '').slice(0, MAX_NAME),
    sort: Object.hasOwn(ORDERS, sort) ? (sort as LeaseSort) : 'resource',
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
  }
}

/** How many leases are shown at once. */
const ROWS = 25

export interface LeasePage {
  readonly rows: readonly LiveLease[]
  readonly page: number
  readonly pages: number
}

/** The leases that one viewer sees. A page that there is no more becomes the last one. */
export function leasePage({ leases }: LiveLeases, { sort, page: wanted }: View): LeasePage {
  const pages = Math.max(1, Math.ceil(leases.length / ROWS))
  const page = Math.min(wanted, pages)
  const sorted = [...leases].sort(ORDERS[sort])
  return { rows: sorted.slice((page - 1) * ROWS, page * ROWS), page, pages }
}

export function stateOf(
  { diagnosis, leases: _, ...snapshot }: Snapshot,
  { leases: found, lines, jobs }: SearchResult,
  { rows, page, pages }: LeasePage,
  running: JobsByResource,
  { namespace, everyMs, bullBoard }: ResolvedOptions,
  { search, sort }: View,
  viewer: Viewer,
): DashboardState {
  const { quorum, voting, margin, healthy, masters, findings, service, servers } = diagnosis
  const { state, text } = verdictOf(diagnosis)
  return {
    ...snapshot,
    ...viewer,
    ...{ lines, jobs, everyMs, namespace, search, bullBoard: bullBoard ?? null },
    fleet: {
      ...{ quorum, voting, margin, healthy },
      service: service ?? null,
      verdict: { state, text: redacted(text) },
      masters: masters.map(({ master, state, survey, clockOffMs }, nr) => {
        const { version, role } = servers?.[nr] ?? {}
        const { roundTripMs, uptimeMs } = survey ?? {}
        const row = { master, state, clockOffMs, role, roundTripMs, uptimeMs }
        return { ...row, version: survey?.version ?? version }
      }),
      findings: grouped(findings).map((finding) => ({ ...finding, fact: redacted(finding.fact) })),
    },
    leases: {
      rows: rows.map((lease) => ({ ...lease, job: running.get(lease.resource) })),
      ...{ sort, page, pages, masters: found.masters },
      problem: hasQuorum(found) ? null : tooFewAnswer(found),
      matching: found.leases.length,
      truncated: found.truncated,
    },
  }
}
