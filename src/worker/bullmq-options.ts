import { refuse } from '../options.ts'

/** Options of ioredis with which BullMQ finds no jobs, and what is expected in their place. */
const UNFIT = {
  keyPrefix: 'absent: use the option `prefix`',
  stringNumbers: 'absent: BullMQ reads numbers',
} as const

/**
 * Of the options of a queue or a worker those that are BullMQ's: `known` has them as false.
 * @throws TypeError for a connection on which no job would be found.
 */
export function bullmqOptions(
  options: { readonly connection?: object | undefined },
  known: Readonly<Record<string, boolean>>,
): Readonly<Record<string, unknown>> {
  for (const [name, expected] of Object.entries(UNFIT)) {
    const value = options.connection?.[name as never] as unknown
    if (value) refuse(`connection.${name}`, expected, value)
  }
  return Object.fromEntries(
    // An undefined one would take the place of a default.
    Object.entries(options).filter(([name, value]) => known[name] === false && value !== undefined),
  )
}
