/**
 * Every line this package logs: one event, with a stable name, its fields, and a level. The names
 * are kept as other public names are, and docs/logging.md lists them. Lines never carry a password
 * of a URL, and a logger that throws stops nothing.
 */
import { childLogger, silentLogger, type Logger } from './logger.ts'
import { redacted } from './redact.ts'

export type Level = 'debug' | 'info' | 'warn' | 'error'

interface Kind {
  readonly level: Level
  readonly message: string
  /** Beside `event`, and beside the fields that the logger adds to all lines of a job. */
  readonly fields: readonly string[]
}

const KINDS = {
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
    fields: [
      'resource',
      'fencingToken',
      'lock',
      'lease',
      'seq',
      'monotonicMs',
      'wallMs',
      'namespace',
      'owner',
      'slots',
      'machine',
      'resources',
      'trustedForMs',
    ],
  },
  'lease:extended': {
    level: 'debug',
    message: 'lease extended',
    fields: [
      'resource',
      'fencingToken',
      'lock',
      'lease',
      'seq',
      'monotonicMs',
      'wallMs',
      'trustedForMs',
    ],
  },
  'lease:released': {
    level: 'debug',
    message: 'lease released',
    fields: ['resource', 'fencingToken', 'lock', 'lease', 'seq', 'monotonicMs', 'wallMs'],
  },
  'lease:handed-over': {
    level: 'debug',
    message: 'lease handed over to the next job of its resource',
    fields: ['resource', 'fencingToken', 'lock', 'lease', 'seq', 'monotonicMs', 'wallMs'],
  },
  'lease:lost': {
    level: 'debug',
    message: 'lease lost',
    fields: ['resource', 'fencingToken', 'lock', 'lease', 'seq', 'monotonicMs', 'wallMs', 'reason'],
  },
  'observer:threw': {
    level: 'error',
    message: 'an observer threw: its errors are ignored from now on. Fix the observer',
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
    fields: ['queue', 'job', 'resource', 'fencingToken', 'attempt'],
  },
  'job:ended': {
    level: 'debug',
    message: 'job ended',
    fields: ['queue', 'job', 'resource', 'fencingToken', 'outcome', 'tookMs'],
  },
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
    fields: ['queue', 'job', 'resource', 'fencingToken', 'reason'],
  },
  'job:lock-lost': {
    level: 'warn',
    message: "job lost BullMQ's lock while it ran",
    fields: ['queue', 'job', 'resource', 'fencingToken'],
  },
  'step:ended': {
    level: 'debug',
    message: 'step ended',
    fields: ['queue', 'job', 'resource', 'fencingToken', 'step', 'outcome', 'tookMs'],
  },
} as const

export type EventName = keyof typeof KINDS
export const EVENTS: Readonly<Record<EventName, Kind>> = KINDS

type FieldsOf<Name extends EventName> = Readonly<
  Partial<Record<(typeof KINDS)[Name]['fields'][number], unknown>>
>

export class EventLog {
  readonly #logger: Logger
  /** At which level a line of each level is logged. */
  readonly #levels: Readonly<Record<Level, Level>>

  /** `debugLevel`: at which level to log what happens to every job. */
  constructor(logger: Logger, debugLevel: Level = 'debug') {
    this.#logger = logger
    this.#levels = { debug: debugLevel, info: 'info', warn: 'warn', error: 'error' }
  }

  /** False where a line would go nowhere, so that nothing is prepared for it. */
  hears(event: EventName): boolean {
    const logger = this.#logger
    const level = this.#levels[EVENTS[event].level]
    try {
      return logger[level] !== silentLogger[level] && logger.isLevelEnabled?.(level) !== false
    } catch {
      return false // A logger that throws gets nothing.
    }
  }

  /** `fields` may come in parts: they are put together only where the line is written. */
  event<Name extends EventName>(event: Name, ...fields: readonly FieldsOf<Name>[]): void {
    if (!this.hears(event)) return
    const { level, message } = EVENTS[event]
    const line = { event, ...safe(Object.assign({}, ...fields) as object) }
    try {
      this.#logger[this.#levels[level]](line, message)
    } catch {
      // A logger that throws has no place to say so.
    }
  }

  /** For lines of others about the same thing. */
  child(fields: Record<string, unknown>): Logger {
    return childLogger(this.#logger, fields)
  }
}

function safe(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]: [string, unknown]) => [
      name,
      typeof value === 'string' ? redacted(value) : value,
    ]),
  )
}
