/** What can be wrong with one master. Pure. A check that finds nothing returns undefined. */
import type { Finding } from '../lock/finding.ts'
import { duration } from './duration.ts'
import type { MasterSurvey } from './survey.ts'

/** What the other masters and this machine say. */
export interface Surroundings {
  /** The median of the masters' and this machine's clocks, relative to this machine's. */
  readonly commonOffsetMs: number
  /** What the fleet's other masters have stored, or what the operator expects. */
  readonly maxLeaseMs: number | undefined
  /** How many masters were named. */
  readonly fleetSize: number
  /** The first master in the list that is the same server process as this one. */
  readonly duplicate: string | undefined
  readonly namespace: string
}

export interface MasterFinding extends Omit<Finding, 'where'> {
  /** Clients do not count this master's votes while this is so. */
  readonly silences: boolean
}

type Check = (master: MasterSurvey, around: Surroundings) => MasterFinding | undefined

/** Redis 7.0 is the first with `PEXPIRE … GT`, which extending relies on. */
const MIN_MAJOR_VERSION = 7
/** Half of the default deadline per master: a slower one will often not be counted. */
const SLOW_MS = 100
/** A clock that NTP looks after is never this far off. */
const CLOCK_WARNING_MS = 1_000
const DEFAULT_MAX_LEASE_MS = 30_000
const FULL = 0.9

const finding =
  (severity: Finding['severity'], silences: boolean) =>
  (code: string, fact: string, fix: string): MasterFinding => ({
    ...{ severity, code, fact, fix, silences },
  })
const error = finding('error', true)
const silencing = finding('warning', true)
const warning = finding('warning', false)
const note = finding('note', false)

const identified: Check = ({ runId }) =>
  runId === ''
    ? error('no-run-id', 'does not report its run id', 'give this user the right to INFO')
    : undefined

const distinct: Check = (_master, { duplicate }) =>
  duplicate === undefined
    ? undefined
    : error(
        'same-server',
        `is the same server as ${duplicate}`,
        'list distinct servers: two addresses of one server would count as two votes',
      )

const recent: Check = ({ version }) =>
  Number.parseInt(version, 10) >= MIN_MAJOR_VERSION
    ? undefined
    : error('old-version', `runs version ${version}`, 'upgrade it to Redis 7.0 or newer, or Valkey')

const notReplica: Check = ({ role }) =>
  role === 'master'
    ? undefined
    : error(
        'replica',
        `is a ${role === 'slave' ? 'replica' : role}`,
        'list only independent masters; to make it one, run `REPLICAOF NO ONE`',
      )

const keepsKeys: Check = ({ maxmemoryPolicy }) =>
  maxmemoryPolicy === 'noeviction'
    ? undefined
    : error(
        'evicts',
        `may evict leases: maxmemory-policy is ${maxmemoryPolicy}`,
        '`CONFIG SET maxmemory-policy noeviction`, and the same in its redis.conf',
      )

const takesWrites: Check = ({ writesRefused }) =>
  writesRefused === undefined
    ? undefined
    : error(
        'refuses-writes',
        `may refuse writes: ${writesRefused}`,
        'read its log and free disk space',
      )

const sameMaxLease: Check = ({ enrolment }, { maxLeaseMs, namespace }) =>
  enrolment === undefined || maxLeaseMs === undefined || enrolment.maxLeaseMs === maxLeaseMs
    ? undefined
    : error(
        'max-lease-differs',
        `has maxLeaseMs ${enrolment.maxLeaseMs} stored, not ${maxLeaseMs}`,
        `give every client the same maxLeaseMs; to change it, stop all workers for that long and delete \`${namespace}:master\` on every master`,
      )

const sameFleetSize: Check = ({ enrolment }, { fleetSize, namespace }) =>
  enrolment === undefined || [0, fleetSize].includes(enrolment.fleetSize)
    ? undefined
    : error(
        'fleet-size-differs',
        `is one of ${enrolment.fleetSize} masters for its clients, but ${fleetSize} are named here`,
        `name the masters of your workers; to change their number, stop all workers for one maxLeaseMs and delete \`${namespace}:master\` on every master`,
      )

const enrolled: Check = ({ enrolment, runId }, { namespace, maxLeaseMs }) => {
  const waitMs = maxLeaseMs ?? DEFAULT_MAX_LEASE_MS
  if (enrolment === undefined) {
    return silencing(
      'not-enrolled',
      `no worker has used it under namespace \`${namespace}\` yet`,
      `start a worker: it votes ${waitMs} ms later, or at once if you \`bootstrap\` a fleet that is new; or correct --namespace`,
    )
  }
  if (enrolment.runId === runId || runId === '') return undefined
  return silencing(
    'restarted',
    'has restarted, and no worker has connected since',
    `start a worker or wait for one: it votes at most ${waitMs} ms after that`,
  )
}

const outOfQuarantine: Check = ({ enrolment, runId }) =>
  enrolment === undefined || enrolment.runId !== runId || enrolment.quarantineMs === 0
    ? undefined
    : silencing(
        'quarantined',
        `is quarantined for another ${enrolment.quarantineMs} ms: it restarted and may have forgotten leases`,
        'wait; only if no worker has ever run on this fleet, run `bullmq-redlock bootstrap`',
      )

const rightClock: Check = ({ clockOffsetMs }, { commonOffsetMs, maxLeaseMs }) => {
  const offMs = clockOffsetMs - commonOffsetMs
  if (Math.abs(offMs) < CLOCK_WARNING_MS) return undefined
  const maxSkewMs = Math.floor((maxLeaseMs ?? DEFAULT_MAX_LEASE_MS) / 3)
  const tooFar = Math.abs(offMs) > maxSkewMs
  const direction = offMs < 0 ? 'behind' : 'ahead of'
  return (tooFar ? error : warning)(
    'clock',
    `its clock is ${duration(Math.abs(offMs))} ${direction} the others${tooFar ? ', so clients do not count it' : ''}`,
    'run chrony or ntpd on its machine; clocks that are set while leases are held drop leases',
  )
}

const hasRoom: Check = ({ usedBytes, maxBytes }) =>
  maxBytes === 0 || usedBytes < FULL * maxBytes
    ? undefined
    : warning(
        'full',
        `uses ${Math.round((100 * usedBytes) / maxBytes)} % of its maxmemory; when it is full it refuses leases`,
        'raise its maxmemory, or lower fenceTtlMs',
      )

const fastEnough: Check = ({ roundTripMs }) =>
  roundTripMs < SLOW_MS
    ? undefined
    : warning(
        'slow',
        `a round trip takes ${Math.round(roundTripMs)} ms`,
        'move it closer, or raise leaseMs and masterTimeoutMs',
      )

const durability: Check = ({ persistence, appendfsync }) => {
  if (persistence === 'aof' && appendfsync === 'always') return undefined
  const described = { aof: `appendfsync ${appendfsync ?? 'unknown'}`, rdb: 'snapshots only' }
  const what = persistence === 'aof' || persistence === 'rdb' ? described[persistence] : persistence
  return note(
    'persistence',
    `persistence: ${what}; after a restart it grants nothing for one maxLeaseMs`,
    'nothing to do; to avoid the wait, set `appendonly yes` and `appendfsync always`',
  )
}

const CHECKS: readonly Check[] = [
  identified,
  distinct,
  recent,
  notReplica,
  keepsKeys,
  takesWrites,
  sameMaxLease,
  sameFleetSize,
  enrolled,
  outOfQuarantine,
  rightClock,
  hasRoom,
  fastEnough,
  durability,
]

export function checkMaster(master: MasterSurvey, around: Surroundings): readonly MasterFinding[] {
  return CHECKS.flatMap((check) => check(master, around) ?? [])
}

/** A master that says nothing at all. */
export function unreachable(problem: string, where: string): Finding {
  const fact = `does not answer: ${problem}`
  return { severity: 'error', code: 'unreachable', where, fact, fix: fixFor(problem) }
}

function fixFor(problem: string): string {
  if (/NOAUTH|WRONGPASS|AUTH/.test(problem)) return 'put the user and the password into its URL'
  if (problem.startsWith('NOPERM')) return 'give this user the rights to INFO, TIME, EVAL and SCAN'
  if (problem.includes('TLS on this port')) return 'correct its URL'
  if (problem.startsWith('LOADING'))
    return 'wait: it reads its data from disk, and votes afterwards'
  if (problem.startsWith('no reply')) {
    return 'check its machine and the network to it: it is frozen, overloaded or cut off'
  }
  return 'start it, or correct its address; `redis-cli -h HOST -p PORT ping` must answer'
}
