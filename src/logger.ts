import { createRequire } from 'node:module'
import type * as Pino from 'pino'

/** What this package needs of a logger; pino's own loggers fit, and so do most others. */
export interface Logger {
  /** What happens to single jobs and leases. */
  debug(fields: object, message: string): void
  /** What an operator may want to know. */
  info(fields: object, message: string): void
  /** Something that may need attention. */
  warn(fields: object, message: string): void
  /** Something that needs attention. */
  error(fields: object, message: string): void
  /**
   * A logger that adds these fields to every line. Where there is none, they are added to each
   * line's own.
   */
  child?(fields: Record<string, unknown>): Logger
  /** Where it says no, nothing is prepared to be logged. */
  isLevelEnabled?(level: string): boolean
}

const ignore = (): void => undefined

/**
 * Logs nothing: for programs that report by other means.
 * @example
 * ```ts
 * new Redlock({ masters, logger: silentLogger })
 * ```
 */
export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/**
 * Warnings and errors as JSON lines on standard error, one event a line. pino is loaded with the
 * first of them: most processes write none.
 */
export function defaultLogger(): Logger {
  let made: Logger | undefined
  const own = (): Logger => (made ??= pinoLogger())
  return {
    isLevelEnabled: (level) => level === 'warn' || level === 'error' || level === 'fatal',
    debug: ignore,
    info: ignore,
    warn: (fields, message) => {
      own().warn(fields, message)
    },
    error: (fields, message) => {
      own().error(fields, message)
    },
  }
}

function pinoLogger(): Logger {
  const { pino } = createRequire(import.meta.url)('pino') as typeof Pino
  return pino({ name: 'bullmq-redlock', level: 'warn' }, { write: writeToStandardError })
}

const MAX_UNREAD_BYTES = 1_000_000

/** A reader may stop reading. A process that waited for it would lose its leases. */
function writeToStandardError(line: string): void {
  const { stderr } = process
  // rule: log-waits-for-no-reader
  if (!stderr.writable || stderr.writableLength > MAX_UNREAD_BYTES) return
  if (stderr.listenerCount('error') === 0) stderr.once('error', ignore)
  stderr.write(line, () => stderr.off('error', ignore))
}

/** `logger.child(fields)` for loggers that have no children too. */
export function childLogger(logger: Logger, fields: Record<string, unknown>): Logger {
  if (logger.child !== undefined) return logger.child(fields)
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (own: object, message: string) => {
    logger[level]({ ...fields, ...own }, message)
  }
  return {
    isLevelEnabled: (level) => logger.isLevelEnabled?.(level) !== false,
    ...{ debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
  }
}
