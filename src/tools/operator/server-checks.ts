/** What can be wrong with one master, and with the queue's Redis. Pure. */
import { counted } from '../../counted.ts'
import { ALLOW_COMMANDS } from '../../redlock/wire/enrolment.ts'
import { BE_A_MASTER, NEVER_EVICT, unfitFor } from '../../redlock/wire/server-facts.ts'
import { findingsOf, type Finding, type Report } from '../../services/service-health.ts'
import { duration } from './words.ts'
import type { ServerAnswer } from './fleet-probe.ts'
import type { ServerSurvey } from './probe.ts'
import type { MasterSurvey } from './survey.ts'

/** What the other masters and this machine say. */
export interface Surroundings {
  /** The median of the masters' and this machine's clocks, relative to this machine's. */
  readonly commonOffsetMs: number
  /** What the fleet's other masters have stored, or what the operator expects. */
  readonly maxLeaseMs: number | undefined
  readonly fleetSize: number
  /** The first master in the list that is the same server process as this one. */
  readonly duplicate: string | undefined
  readonly namespace: string
}

/** Half of the default deadline per master: a slower one will often not be counted. */
const SLOW_MS = 100
/** A clock that NTP looks after is never this far off. */
const CLOCK_WARNING_MS = 1_000
const DEFAULT_MAX_LEASE_MS = 30_000
const FULL = 0.9

export function checkMaster(
  where: string,
  master: MasterSurvey,
  around: Surroundings,
): readonly Finding[] {
  return findingsOf(where, (report) => {
    checkServer(master, around, report)
    // What a replica has stored is another master's.
    if (master.role === 'master') {
      checkConstants(master, around, report)
      checkEnrolment(master, around, report)
    }
    checkClock(master, around, report)
    checkCapacity(master, report)
    checkPersistence(master, report)
  })
}

const SILENCING = ['not-enrolled', 'restarted', 'quarantined']

/** Whether a master with this finding votes after a time. */
export function waits(code: string): boolean {
  return SILENCING.includes(code)
}

/** Whether clients do not count the votes of a master while this is so. */
export function silences({ severity, code }: Finding): boolean {
  return severity === 'error' || waits(code)
}

function checkServer(master: MasterSurvey, { duplicate }: Surroundings, report: Report): void {
  for (const { code, problem, fix } of unfitFor(master)) report('error', code, problem, fix)
  if (duplicate !== undefined) {
    const fix = 'list distinct servers: two addresses of one server would count as two votes'
    report('error', 'same-server', `is the same server as ${duplicate}`, fix)
  }
  checkWrites(master, report)
  // A replica is told of above.
  if (master.refusal !== undefined && master.role === 'master') {
    report('error', 'refuses-leases', master.refusal.problem, master.refusal.fix)
  }
}

function checkWrites({ writesRefused }: ServerSurvey, report: Report): void {
  if (writesRefused === undefined) return
  const fact = `may refuse writes: ${writesRefused}`
  report('error', 'refuses-writes', fact, 'read its log and free disk space')
}

/** What the master has stored for all clients. */
function checkConstants({ enrolment }: MasterSurvey, around: Surroundings, report: Report): void {
  if (enrolment === undefined) return
  const { maxLeaseMs, fleetSize } = around
  if (enrolment.resizing !== '') {
    const fix = 'run the same `bullmq-redlock resize` again: it goes on where it was interrupted'
    report('error', 'resizing', 'is closed: a resize of its fleet is not finished', fix)
    return
  }
  if (enrolment.isRetired) {
    const fix = 'take it out of the list, or back into the fleet by `resize`'
    report('error', 'retired', 'was taken out of its fleet by `bullmq-redlock resize`', fix)
    return
  }
  if (maxLeaseMs !== undefined && enrolment.maxLeaseMs !== maxLeaseMs) {
    const fact = `has maxLeaseMs ${enrolment.maxLeaseMs} stored, not ${maxLeaseMs}`
    const fix = `give every client the same maxLeaseMs; to change it, run \`bullmq-redlock resize\``
    report('error', 'max-lease-differs', fact, fix)
  }
  if (![0, fleetSize].includes(enrolment.fleetSize)) {
    const fact = `is one of ${counted(enrolment.fleetSize, 'master')} for its clients, but ${counted(fleetSize, 'is', 'are')} named here`
    const fix = `name the masters of your workers; to change their number, run \`bullmq-redlock resize\``
    report('error', 'fleet-size-differs', fact, fix)
  }
}

/** Whether the master may vote: enrolled as the process that it is now, and out of quarantine. */
function checkEnrolment(
  { enrolment, runId }: MasterSurvey,
  { namespace, maxLeaseMs: waitMs = DEFAULT_MAX_LEASE_MS }: Surroundings,
  report: Report,
): void {
  if (enrolment === undefined) {
    const fact = `no worker has used it under namespace \`${namespace}\` yet`
    const fix = `start a worker: it votes ${waitMs} ms later, or at once if you \`bootstrap\` a fleet that is new; or correct --namespace`
    report('warning', 'not-enrolled', fact, fix)
  } else if (enrolment.runId !== runId) {
    if (runId === '') return
    // What a copy does not change.
    const [enrolled, now] = [enrolment.runId, runId].map((id) => id.split(':', 1)[0])
    if (enrolled === now) {
      const fact =
        'a replica or `redis-cli --rdb` has copied it since a worker enrolled it: workers that are connected count it'
      const fix = `detach the replica, and make no copies: it grants nothing for ${waitMs} ms after the next worker has connected`
      report('warning', 'copied', fact, fix)
      return
    }
    const fact = 'has restarted, and no worker has connected since'
    const fix = `start a worker or wait for one: it votes at most ${waitMs} ms after that`
    report('warning', 'restarted', fact, fix)
  } else if (enrolment.quarantineMs !== 0) {
    const fact = `grants nothing for at most another ${duration(enrolment.quarantineMs)}: it is new or restarted, and may have forgotten leases`
    const fix =
      'keep a worker running: the time counts only while one is connected; only on a fleet that no worker has used, run `bullmq-redlock bootstrap`'
    report('warning', 'quarantined', fact, fix)
  }
}

function checkClock(
  { clockOffsetMs }: MasterSurvey,
  { commonOffsetMs, maxLeaseMs = DEFAULT_MAX_LEASE_MS }: Surroundings,
  report: Report,
): void {
  const offMs = clockOffsetMs - commonOffsetMs
  if (Math.abs(offMs) < CLOCK_WARNING_MS) return
  const tooFar = Math.abs(offMs) > Math.floor(maxLeaseMs / 3)
  const direction = offMs < 0 ? 'behind' : 'ahead of'
  const effect = tooFar ? ', so clients do not count it' : ''
  const fact = `its clock is ${duration(Math.abs(offMs))} ${direction} the others${effect}`
  const fix =
    'run chrony or ntpd on its machine; clocks that are set while leases are held drop leases'
  report(tooFar ? 'error' : 'warning', 'clock', fact, fix)
}

function checkCapacity({ usedBytes, maxBytes, roundTripMs }: MasterSurvey, report: Report): void {
  if (maxBytes > 0 && usedBytes >= FULL * maxBytes) {
    const percent = Math.round((100 * usedBytes) / maxBytes)
    const fact = `uses ${percent} % of its maxmemory; when it is full it refuses leases`
    report('warning', 'full', fact, 'raise its maxmemory, or lower fenceTtlMs')
  }
  if (roundTripMs >= SLOW_MS) {
    const fact = `a round trip takes ${Math.round(roundTripMs)} ms`
    report('warning', 'slow', fact, 'move it closer, or raise leaseMs and masterTimeoutMs')
  }
}

function checkPersistence({ persistence, appendfsync }: MasterSurvey, report: Report): void {
  if (persistence === 'aof' && appendfsync === 'always') return
  const described = {
    ...{ aof: `appendfsync ${appendfsync ?? 'unknown'}`, rdb: 'snapshots only' },
    ...{ none: 'none', unknown: 'unknown' },
  }
  const what = described[persistence]
  const fact = `persistence: ${what}; after a restart it grants nothing for one maxLeaseMs`
  const fix = 'nothing to do; to avoid the wait, set `appendonly yes` and `appendfsync always`'
  report('note', 'persistence', fact, fix)
}

export function unreachable(problem: string, where: string): Finding {
  const fact = `does not answer: ${problem}`
  return { severity: 'error', code: 'unreachable', where, fact, fix: fixFor(problem) }
}

const FIXES: readonly (readonly [RegExp, string])[] = [
  [/^WRONGPASS/, 'correct the user and the password in its URL'],
  [/AUTH/, 'put the user and the password into its URL'],
  [/^NOPERM/, 'give this user the rights to INFO, TIME, EVAL and SCAN'],
  [/unknown command/, ALLOW_COMMANDS],
  [/TLS on this port/, 'correct its URL'],
  [/^TLS: .*alert/, 'give its clients a certificate (`cert` and `key`) that it accepts'],
  [
    /certificate|altnames/,
    'give it a valid certificate for this name, and its clients the `ca` that signed it',
  ],
  [/^LOADING/, 'wait: it answers when it has read its data'],
  [/^no reply/, 'check its machine and the network to it: it is frozen, overloaded or cut off'],
  [/max number of clients/, 'raise its `maxclients`, or end programs that hold connections to it'],
  [/^DENIED/, 'give it users: deploy/redis/make-acl.sh makes them'],
  [/^MASTERDOWN/, BE_A_MASTER],
  [/^BUSY/, 'wait, or `SCRIPT KILL` on it'],
  [/^[A-Z]+ /, 'read its log'],
]

function fixFor(problem: string): string {
  const [, fix] = FIXES.find(([said]) => said.test(problem)) ?? []
  return fix ?? 'start it, or correct its address; `redis-cli -h HOST -p PORT ping` must answer'
}

/** BullMQ refuses servers below the first and recommends the second. */
const MIN_QUEUE_VERSION = 5
const RECOMMENDED_VERSION = 6.2

export function checkQueue(
  queue: ServerAnswer<ServerSurvey>,
  masters: readonly ServerAnswer<MasterSurvey>[],
): readonly Finding[] {
  const where = `queue ${queue.master}`
  if (!queue.ok) return [unreachable(queue.problem, where)]
  return findingsOf(where, (report) => {
    checkQueueServer(queue.value, report)
    const master = masters.find((one) => one.ok && one.value.runId === queue.value.runId)
    if (master === undefined) return
    const fact = `is also the lock master ${master.master}`
    report('warning', 'same-server', fact, 'give the queue another server')
  })
}

function checkQueueServer(server: ServerSurvey, report: Report): void {
  const version = Number.parseFloat(server.version)
  if (version < RECOMMENDED_VERSION) {
    const severity = version < MIN_QUEUE_VERSION ? 'error' : 'warning'
    const fix = 'upgrade it: BullMQ needs 6.2 or newer'
    report(severity, 'old-version', `runs version ${server.version}`, fix)
  }
  if (server.role !== 'master') {
    report('error', 'replica', 'is a replica', 'give the address of its master: BullMQ writes')
  }
  if (server.slotsServed !== undefined) {
    const fact = `its cluster serves ${server.slotsServed} of 16384 slots: queues of the others stand still`
    report('error', 'slots', fact, 'start its nodes, or `redis-cli --cluster fix HOST:PORT`')
  }
  const { maxmemoryPolicy } = server
  if (maxmemoryPolicy !== 'noeviction') {
    const fact = `may evict jobs and lines: maxmemory-policy is ${maxmemoryPolicy}`
    report('error', 'evicts', fact, NEVER_EVICT)
  }
  checkWrites(server, report)
  // Of a lock master, `refuses-leases` says so.
  if (server.lacksReplicas) {
    const fact = 'refuses writes: fewer replicas keep up than `min-replicas-to-write` says'
    report('error', 'refuses-writes', fact, 'start its replicas, or lower `min-replicas-to-write`')
  }
  const { usedBytes, maxBytes } = server
  if (maxBytes > 0 && usedBytes >= maxBytes) {
    const fact = 'is full and refuses writes: jobs are neither added nor started'
    report('error', 'full', fact, 'raise its maxmemory, or remove finished jobs')
  }
  if (server.persistence === 'none') {
    const fact = 'writes nothing to disk: a restart loses every job'
    report('warning', 'persistence', fact, '`appendonly yes` in its redis.conf')
  }
}
