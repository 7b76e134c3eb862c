/**
 * The log listens to the channel: one line a fact, with a stable name, its fields, and a level. The
 * names are kept as other public names are, and docs/logging.md lists them with their fields. Lines
 * never carry a password of a URL, and a logger that throws stops nothing.
 */
import { randomUUID } from 'node:crypto'
import { Channel, type Listener } from './channel.ts'
import type { FactName, Facts, ToldLease } from './facts.ts'
import type { Clock } from './clock.ts'
import { silentLogger, type Logger } from './logger.ts'
import { machineId, machineOffsetMs } from './machine.ts'
import { redacted } from './redact.ts'

export type Level = 'debug' | 'info' | 'warn' | 'error'

/** Each with its level and its message. */
export const LINES = {
  'master:connecting': ['warn', 'master does not vote'],
  'master:enrolled': ['info', 'master votes'],
  'master:quarantined': [
    'warn',
    'new or restarted masters grant nothing yet, because they may have forgotten leases. If this fleet is new, run: bullmq-redlock bootstrap',
  ],
  'master:refused': ['error', 'master refused'],
  'master:clock-jump': [
    'error',
    'clock of the master jumped: it may have dropped leases, and does not vote for one maxLeaseMs. Check NTP',
  ],
  'master:clock-skew': [
    'error',
    'clocks of this machine and the master differ by more than maxClockSkewMs: check NTP',
  ],
  'fleet:resized': ['info', 'the fleet was resized: this client has followed it'],
  'fleet:votes': ['warn', 'all masters vote'],
  'fleet:even': [
    'warn',
    'an even number of masters survives no more failures than one master fewer: use an odd number',
  ],
  'queue:is-master': [
    'warn',
    "the queue's Redis is also a lock master: one failure takes both. Use separate servers",
  ],
  'lease:granted': ['debug', 'lease granted'],
  'lease:extended': ['debug', 'lease extended'],
  'lease:released': ['debug', 'lease released'],
  'lease:handed-over': ['debug', 'lease handed over to the next job of its resource'],
  'lease:lost': ['debug', 'lease lost'],
  'listener:threw': ['error', 'a listener threw: fix it. Its later errors are ignored'],
  'breaker:open': ['warn', 'no lease can be granted: this worker fetches no jobs'],
  'breaker:closed': ['warn', 'leases can be granted again: this worker fetches jobs'],
  'job:started': ['debug', 'job runs under its lease'],
  'job:ended': ['debug', 'job ended'],
  'job:requeued': ['debug', 'job requeued'],
  'job:given-back': ['debug', 'job requeued: it could not run here'],
  'job:server-refused': ['warn', 'a server refused a command of the job: it is sent again'],
  'job:lease-lost': ['warn', 'job lost its lease while it ran'],
  'job:lock-lost': ['warn', "job lost BullMQ's lock while it ran"],
  'step:ended': ['debug', 'step ended'],
  'operator:acted': ['warn', 'an operator acted from the page'],
} as const

export type LineName = keyof typeof LINES

/** Writes lines to a user's logger. */
export class Log {
  readonly #logger: Logger
  /** At which level a line of each level is logged. */
  readonly #levels: Readonly<Record<Level, Level>>

  /** `debugLevel`: at which level to log what happens to every job. */
  constructor(logger: Logger, debugLevel: Level = 'debug') {
    this.#logger = logger
    this.#levels = { debug: debugLevel, info: 'info', warn: 'warn', error: 'error' }
  }

  /** False where a line would go nowhere, so that nothing is prepared for it. */
  hears(line: LineName): boolean {
    const logger = this.#logger
    const [own] = LINES[line]
    const level = this.#levels[own]
    try {
      return logger[level] !== silentLogger[level] && logger.isLevelEnabled?.(level) !== false
    } catch {
      return false // A logger that throws gets nothing.
    }
  }

  write(line: LineName, fields: object): void {
    if (!this.hears(line)) return
    const [level, message] = LINES[line]
    try {
      this.#logger[this.#levels[level]]({ event: line, ...safe(fields) }, message)
    } catch {
      // A logger that throws has no place to say so.
    }
  }
}

/** The fields of facts that are not a line as they are told. */
const FIELDS: { readonly [Name in FactName & LineName]?: (fact: Facts[Name]) => object } = {
  'job:started': ({ attempt, ...about }) => ({ ...ofJob(about), attempt }),
  'job:ended': ({ outcome, tookMs, ...about }) => ({ ...ofJob(about), ...took(outcome, tookMs) }),
  'job:requeued': ({ job, why }) => ({ queue: job.queueName, job: job.id, ...why }),
  'job:given-back': ({ job }) => ({ queue: job.queueName, job: job.id }),
  'job:lease-lost': ({ error, ...about }) => ({ ...ofJob(about), reason: error.reason }),
  'job:lock-lost': ofJob,
  'step:ended': ({ step, outcome, tookMs, ...about }) => {
    return { ...ofJob(about), step, ...took(outcome, tookMs) }
  },
}

/** What one lock or worker tells, also to its log. @param own who else listens to it alone. */
export function loggedChannel(
  log: Log,
  namespace: string | undefined,
  own: readonly Listener[],
): Channel {
  return new Channel(namespace, [logListener(log), ...own], (error) => {
    log.write('listener:threw', { error: String(error) })
  })
}

/** Of everything but leases. */
function logListener(log: Log): Listener {
  const lines = (Object.keys(LINES) as LineName[]).filter((line) => !line.startsWith('lease:'))
  const fieldsOf = FIELDS as Readonly<Partial<Record<LineName, (fact: object) => object>>>
  const writing = lines.map((line) => [
    line,
    (fact: object): void => {
      log.write(line, fieldsOf[line]?.(fact) ?? fact)
    },
  ])
  return {
    hears: (event) => log.hears(event as LineName),
    on: Object.fromEntries(writing) as object,
  }
}

/** The fields that name a job and what it holds. */
export function ofJob({
  job,
  lease: { resource, fencingToken },
}: Facts['job:lock-lost']): Record<string, unknown> {
  return { queue: job.queueName, job: job.id, resource, fencingToken }
}

function took(outcome: string, tookMs: number): object {
  return { outcome, tookMs: Math.round(tookMs) }
}

function safe(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]: [string, unknown]) => [
      name,
      typeof value === 'string' ? redacted(value) : value,
    ]),
  )
}

export interface LeaseLogOptions {
  readonly log: Log
  readonly clock: Clock
  readonly namespace: string
  readonly owner: string
}

/**
 * The record of leases of one lock: granted, extended, and how each ended. `bullmq-redlock verify`
 * judges it. Each line has the clocks of its process, and a number that shows whether lines are
 * missing. All its lines have one level, so they are all heard, or none is.
 */
export function leaseLog({ log, clock, namespace, owner }: LeaseLogOptions): Listener {
  /** Names the lock in the log. */
  const lock = randomUUID()
  const numbers = new WeakMap<ToldLease, number>()
  let leases = 0
  let seq = 0

  const about = (lease: ToldLease): object => {
    const number = numbers.get(lease) ?? ++leases
    numbers.set(lease, number)
    return {
      ...{ resource: lease.resource, fencingToken: lease.fencingToken, lock, lease: number },
      seq: ++seq,
      monotonicMs: rounded(clock.now() + machineOffsetMs()),
      wallMs: rounded(clock.wallNow()),
    }
  }
  // Read after the clocks of the line, so that the end of trust is never later than it was.
  const trust = (lease: ToldLease): object => ({ trustedForMs: rounded(lease.remainingMs()) })

  return {
    hears: () => log.hears('lease:granted'),
    on: {
      'lease:granted': ({ lease, slots }) => {
        const { resources } = lease
        log.write('lease:granted', {
          ...about(lease),
          ...{ namespace, owner, slots, machine: machineId() },
          ...(resources.length > 1 && { resources }),
          ...trust(lease),
        })
      },
      'lease:extended': ({ lease, outcome }) => {
        if (outcome !== 'extended') return
        log.write('lease:extended', { ...about(lease), ...trust(lease) })
      },
      'lease:ended': ({ lease, how, reason }) => {
        log.write(`lease:${how}`, { ...about(lease), ...(how === 'lost' && { reason }) })
      },
    },
  }
}

/** To the microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
