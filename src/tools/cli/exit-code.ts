/** How the command line says how it ended. The numbers are documented; scripts rely on them. */
export const EXIT = {
  done: 0,
  /** It ran, and found or left something that needs attention. */
  attention: 1,
  usage: 2,
  /** Fewer than a quorum of the masters answer or vote. */
  noQuorum: 3,
  interrupted: 130,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** A command line or configuration that cannot be run. The message says what to write. */
export class UsageError extends Error {
  readonly code = 'USAGE'
  override readonly name = 'UsageError'
}
