/** What the page is told: one JSON value, no larger for a large fleet than for a small one. Pure. */
import type { Diagnosis, MasterHealth } from '../operator/diagnosis.ts'
import type { Finding } from '../operator/finding.ts'
import type { LeaseChanges } from '../operator/lease-changes.ts'
import type { LiveLease, LiveLeases } from '../operator/live-leases.ts'
import { redacted } from '../redact.ts'
import type { Found, Look } from './looks.ts'
import type { ProcessActivity, ProcessReport } from './process-activity.ts'

export interface DashboardState {
  /** When the servers were looked at, milliseconds since 1970. */
  readonly at: number
  readonly everyMs: number
  readonly namespace: string
  readonly search: string
  readonly fleet: Pick<Diagnosis, 'quorum' | 'voting' | 'margin' | 'healthy'> & {
    readonly masters: readonly MasterRow[]
    readonly findings: readonly Finding[]
  }
  readonly leases: {
    readonly rows: readonly LeaseRow[]
    /** That match the search, among those that were looked at. */
    readonly matching: number
    /** There are, or may be, more than were looked at. */
    readonly truncated: boolean
    readonly masters: number
  }
  readonly lines: Look['lines'] | null
  readonly changes: LeaseChanges
  /** Of the process that serves the page; null when nothing that is watched has happened in it. */
  readonly process: ProcessReport | null
}

interface MasterRow {
  readonly master: string
  readonly state: MasterHealth['state']
  readonly version?: string
  readonly clockOffMs?: number
  readonly roundTripMs?: number
  readonly uptimeMs?: number
}

interface LeaseRow extends LiveLease {
  /** That the lease is at, where its holder is the process that serves the page. */
  readonly step?: string
}

export interface StateOptions {
  readonly namespace: string
  readonly everyMs: number
  readonly search: string
}

/** So many leases are shown. */
const MAX_ROWS = 200

export function stateOf(
  { at, diagnosis, changes }: Look,
  { leases, lines }: Found,
  activity: ProcessActivity,
  { namespace, everyMs, search }: StateOptions,
): DashboardState {
  const { quorum, voting, margin, healthy, masters, findings } = diagnosis
  return {
    ...{ at, everyMs, namespace, search },
    fleet: {
      ...{ quorum, voting, margin, healthy },
      masters: masters.map(masterRow),
      findings: findings.map((finding) => ({ ...finding, fact: redacted(finding.fact) })),
    },
    leases: leaseRows(leases, activity),
    lines: lines ?? null,
    changes,
    process: activity.report() ?? null,
  }
}

function masterRow({ master, state, survey, clockOffMs }: MasterHealth): MasterRow {
  if (survey === undefined) return { master, state }
  const { version, roundTripMs, uptimeMs } = survey
  return {
    master,
    state,
    version,
    roundTripMs,
    uptimeMs,
    ...(clockOffMs !== undefined && { clockOffMs }),
  }
}

function leaseRows(
  { leases, truncated, masters }: LiveLeases,
  activity: ProcessActivity,
): DashboardState['leases'] {
  const rows = leases.slice(0, MAX_ROWS).map((lease): LeaseRow => {
    const step = activity.stepOf(lease.fencingToken)
    return step === undefined ? lease : { ...lease, step }
  })
  return { rows, matching: leases.length, truncated, masters }
}
