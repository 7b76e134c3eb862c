import type { QueueBaseOptions } from 'bullmq'
import { knownOptions, refuse } from '../options.ts'

/** Options of ioredis with which BullMQ finds no jobs, and what is expected in their place. */
const UNFIT = {
  keyPrefix: 'absent: use the option `prefix`',
  stringNumbers: 'absent: BullMQ reads numbers',
} as const

/**
 * Of the options of a queue or a worker those that are BullMQ's: `known` has them as false.
 * @throws TypeError for an unknown option, and a connection on which no job would be found.
 */
export function bullmqOptions<Options extends QueueBaseOptions>(
  options: Options & Readonly<Record<string, unknown>>,
  known: Readonly<Record<string, boolean>>,
): Options {
  knownOptions(options, known)
  for (const [name, expected] of Object.entries(UNFIT)) {
    const value = (options.connection as object | undefined)?.[name as never] as unknown
    if (value) refuse(`connection.${name}`, expected, value)
  }
  return Object.fromEntries(
    // An undefined one would take the place of a default.
    Object.entries(options).filter(([name, value]) => known[name] === false && value !== undefined),
  ) as never
}
