import { destination, pino } from 'pino'

/** What this package needs of a logger; pino's own loggers fit, and so do most others. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Warnings and errors as JSON lines on standard error, one event a line. */
export function defaultLogger(): Logger {
  return pino({ name: 'bullmq-redlock', level: 'warn' }, destination({ fd: 2, sync: true }))
}
