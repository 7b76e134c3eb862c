/** What a call that acquires may be given. */
import { knownOptions, objectOption } from '../options.ts'
import type { LeaseOptions } from './lock-service.ts'

export interface AcquireOptions extends LeaseOptions {
  /**
   * How long to go on trying. 0 tries once.
   * @defaultValue one lease length: a dead holder's lease is over by then
   */
  readonly waitMs?: number
  /** Ends the waiting; a lease that was granted meanwhile is released. */
  readonly signal?: AbortSignal
}

const KNOWN: Readonly<Record<keyof AcquireOptions, true>> = {
  leaseMs: true,
  waitMs: true,
  slots: true,
  autoExtend: true,
  maxHoldMs: true,
  maxExtensions: true,
  signal: true,
}

/** @throws TypeError for a number, which other libraries take as the duration, and for an option that does not exist. */
export function callOptions(options: unknown): void {
  objectOption(options, 'an object, such as { leaseMs: 5_000 }')
  knownOptions(options, KNOWN)
}
