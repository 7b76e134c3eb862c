/**
 * What the product is known to do wrong, until it is mended. A violation that one of these explains
 * is counted, and fails nothing. An entry goes with the fault.
 */
import type { History } from './history.ts'
import type { Violation } from './oracle.ts'
import type { Action } from './plan.ts'

export interface KnownFault {
  readonly what: string
  readonly rules: readonly string[]
  readonly explains: (history: History) => boolean
}

const does = ({ plan }: History, ...kinds: readonly Action['do'][]): boolean =>
  plan.operations.some((operation) => kinds.includes(operation.do))

export const KNOWN_FAULTS: readonly KnownFault[] = [
  {
    what: 'After `drain` and `obliterate` the hash of a job of a scheduler may be left.',
    rules: ['nothing is left'],
    explains: (history) => does(history, 'scheduler') && does(history, 'drainQueue'),
  },
]

export function isKnown(history: History, { rule }: Violation): KnownFault | undefined {
  return KNOWN_FAULTS.find(({ rules, explains }) => rules.includes(rule) && explains(history))
}
