/** Whose writes a store compares. */
import { integerOption } from '../options.ts'

export interface Fenced {
  readonly fencingToken: number
}

/** @throws TypeError for what is no token: no store could compare later ones with it. */
export function tokenOf({ fencingToken }: Fenced): number {
  // rule: no-write-without-a-token
  return integerOption('lease.fencingToken', fencingToken, 0, Number.MAX_SAFE_INTEGER)
}
