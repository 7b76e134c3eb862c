/** Who holds a resource: the only place that says so. Pure. */
import { quorumOf } from './quorum.ts'

/** Stands in a reply in place of a holder: the resource is free, and reserved for waiters. */
export const RESERVED = 'reserved@those who waited longer'

/**
 * The token that a quorum of the masters names; `tokens` has one entry for every master of the
 * fleet. Masters that reserve the resource count for its holder on others, which is probably one of
 * the waiters that they reserve it for.
 */
export function holderOf(tokens: readonly (string | undefined)[]): string | undefined {
  const quorum = quorumOf(tokens.length)
  const hasQuorum = (token: string): boolean =>
    tokens.filter((one) => one === token || one === RESERVED).length >= quorum
  const named = tokens.find(
    (token) => token !== undefined && token !== RESERVED && hasQuorum(token),
  )
  return named ?? (hasQuorum(RESERVED) ? RESERVED : undefined)
}
