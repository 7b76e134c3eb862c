/**
 * The log listens to the channel: one line a fact, with a stable name, its fields, and a level. The
 * names are kept as other public names are, and docs/logging.md lists them. Lines never carry a
 * password of a URL, and a logger that throws stops nothing.
 */
import { Channel, type FactName, type Facts, type Listener } from './channel.ts'
import { silentLogger, type Logger } from './logger.ts'
import { redacted } from './redact.ts'

export type Level = 'debug' | 'info' | 'warn' | 'error'

interface Kind {
  readonly level: Level
  readonly message: string
  /** Beside `event`, and beside the fields that the logger adds to all lines of a job. */
  readonly fields: readonly string[]
}

const OF_JOB = ['queue', 'job', 'resource', 'fencingToken'] as const
const OF_LEASE = [
  ...['resource', 'fencingToken', 'lock', 'lease', 'seq', 'monotonicMs', 'wallMs'],
] as const

export type LineName =
  | ('master:connecting' | 'master:enrolled' | 'master:quarantined' | 'master:refused')
  | ('master:clock-jump' | 'master:clock-skew' | 'fleet:even' | 'queue:is-master')
  | ('lease:granted' | 'lease:extended' | 'lease:released' | 'lease:handed-over' | 'lease:lost')
  | ('listener:threw' | 'breaker:open' | 'breaker:closed')
  | ('job:started' | 'job:ended' | 'job:requeued' | 'job:given-back' | 'job:server-refused')
  | ('job:lease-lost' | 'job:lock-lost' | 'step:ended')

export const LINES: Readonly<Record<LineName, Kind>> = {
  'master:connecting': {
    level: 'warn',
    message: 'master does not vote',
    fields: ['master', 'detail', 'times'],
  },
  'master:enrolled': { level: 'info', message: 'master votes', fields: ['master'] },
  'master:quarantined': {
    level: 'warn',
    message:
      'new or restarted masters grant nothing yet, because they may have forgotten leases. If this fleet is new, run: bullmq-redlock bootstrap',
    fields: ['masters', 'votesInMs'],
  },
  'master:refused': {
    level: 'error',
    message: 'master refused',
    fields: ['master', 'problem', 'fix', 'times'],
  },
  'master:clock-jump': {
    level: 'error',
    message:
      'clock of the master jumped: it may have dropped leases, and does not vote for one maxLeaseMs. Check NTP',
    fields: ['master', 'jumpedMs'],
  },
  'master:clock-skew': {
    level: 'error',
    message: 'clocks of this machine and the master differ by more than maxClockSkewMs: check NTP',
    fields: ['master', 'clockOffsetMs'],
  },
  'fleet:even': {
    level: 'warn',
    message:
      'an even number of masters survives no more failures than one master fewer: use an odd number',
    fields: ['masters'],
  },
  'queue:is-master': {
    level: 'warn',
    message:
      "the queue's Redis is also a lock master: one failure takes both. Use separate servers",
    fields: ['queue', 'master'],
  },
  'lease:granted': {
    level: 'debug',
    message: 'lease granted',
    fields: [...OF_LEASE, 'namespace', 'owner', 'slots', 'machine', 'resources', 'trustedForMs'],
  },
  'lease:extended': {
    level: 'debug',
    message: 'lease extended',
    fields: [...OF_LEASE, 'trustedForMs'],
  },
  'lease:released': { level: 'debug', message: 'lease released', fields: OF_LEASE },
  'lease:handed-over': {
    level: 'debug',
    message: 'lease handed over to the next job of its resource',
    fields: OF_LEASE,
  },
  'lease:lost': { level: 'debug', message: 'lease lost', fields: [...OF_LEASE, 'reason'] },
  'listener:threw': {
    level: 'error',
    message: 'a listener threw: its errors are ignored from now on. Fix the listener',
    fields: ['error'],
  },
  'breaker:open': {
    level: 'warn',
    message: 'the lock masters have no quorum: this worker fetches no jobs',
    fields: ['queue'],
  },
  'breaker:closed': {
    level: 'info',
    message: 'the lock masters have a quorum again: this worker fetches jobs',
    fields: ['queue'],
  },
  'job:started': {
    level: 'debug',
    message: 'job runs under its lease',
    fields: [...OF_JOB, 'attempt'],
  },
  'job:ended': { level: 'debug', message: 'job ended', fields: [...OF_JOB, 'outcome', 'tookMs'] },
  'job:requeued': {
    level: 'debug',
    message: 'job requeued',
    fields: ['queue', 'job', 'resource', 'status', 'delayMs', 'reason'],
  },
  'job:given-back': {
    level: 'debug',
    message: 'job requeued: it could not run here',
    fields: ['queue', 'job'],
  },
  'job:server-refused': {
    level: 'warn',
    message: 'a server refused a command of the job: the command is sent again',
    fields: ['job', 'reason'],
  },
  'job:lease-lost': {
    level: 'warn',
    message: 'job lost its lease while it ran',
    fields: [...OF_JOB, 'reason'],
  },
  'job:lock-lost': {
    level: 'warn',
    message: "job lost BullMQ's lock while it ran",
    fields: OF_JOB,
  },
  'step:ended': {
    level: 'debug',
    message: 'step ended',
    fields: [...OF_JOB, 'step', 'outcome', 'tookMs'],
  },
}

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
    const level = this.#levels[LINES[line].level]
    try {
      return logger[level] !== silentLogger[level] && logger.isLevelEnabled?.(level) !== false
    } catch {
      return false // A logger that throws gets nothing.
    }
  }

  write(line: LineName, fields: object): void {
    if (!this.hears(line)) return
    const { level, message } = LINES[line]
    try {
      this.#logger[this.#levels[level]]({ event: line, ...safe(fields) }, message)
    } catch {
      // A logger that throws has no place to say so.
    }
  }
}

/** The fields of facts that are a line as they are told, or nearly so. */
const FIELDS: { readonly [Name in FactName & LineName]?: (fact: Facts[Name]) => object } = {
  'master:connecting': asTold,
  'master:enrolled': asTold,
  'master:quarantined': asTold,
  'master:refused': asTold,
  'master:clock-jump': asTold,
  'master:clock-skew': asTold,
  'fleet:even': asTold,
  'queue:is-master': asTold,
  'breaker:open': asTold,
  'breaker:closed': asTold,
  'job:started': ({ attempt, ...about }) => ({ ...ofJob(about), attempt }),
  'job:ended': ({ outcome, tookMs, ...about }) => ({ ...ofJob(about), ...took(outcome, tookMs) }),
  'job:requeued': ({ job, why }) => ({ queue: job.queueName, job: job.id, ...why }),
  'job:given-back': ({ job }) => ({ queue: job.queueName, job: job.id }),
  'job:server-refused': asTold,
  'job:lease-lost': ({ error, ...about }) => ({ ...ofJob(about), reason: error.reason }),
  'job:lock-lost': ofJob,
  'step:ended': ({ step, outcome, tookMs, ...about }) => ({
    ...ofJob(about),
    step,
    ...took(outcome, tookMs),
  }),
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

/** Of everything but leases, which `lock/lease-log.ts` writes. */
function logListener(log: Log): Listener {
  const entries = Object.entries(FIELDS) as [LineName, (fact: unknown) => object][]
  return {
    hears: (event) => log.hears(event as LineName),
    on: Object.fromEntries(
      entries.map(([line, fields]) => [
        line,
        (fact: unknown): void => {
          log.write(line, fields(fact))
        },
      ]),
    ),
  }
}

/** The fields that name a job and what it holds. */
export function ofJob({
  job,
  lease: { resource, fencingToken },
}: Facts['job:lock-lost']): Record<string, unknown> {
  return { queue: job.queueName, job: job.id, resource, fencingToken }
}

function asTold(fact: object): object {
  return fact
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
