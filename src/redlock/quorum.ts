import { counted } from '../counted.ts'
import type { Inspection, MasterView } from '../lock/inspection.ts'
import { luaConstant } from '../lua.ts'
import { withoutStop } from '../message-of.ts'

/** What a majority is, and who holds a resource by it: the only place that says so. Pure. */

/** The smallest majority of `masters`: any two quorums share at least one master. */
export function quorumOf(masters: number): number {
  // rule: quorum-is-a-majority
  return Math.floor(masters / 2) + 1
}

/** Of a fleet in which too few masters vote, in words. @param others why others do not. */
export function noQuorum(voting: number, masters: number, others: readonly string[]): string {
  const needed = counted(quorumOf(masters), 'is', 'are')
  const votes = `${voting} of ${counted(masters, 'master votes', 'masters vote')} and ${needed} needed`
  return [votes, ...others.map(withoutStop)].join('. ')
}

/** Stands in a reply in place of a holder: the resource is free, and reserved for waiters. */
export const RESERVED: string = luaConstant('redlock/lua/acquire', 'RESERVED')

/**
 * Who holds a resource: the token that a quorum of the masters names. `tokens` has one entry for
 * every master of the fleet. Masters that reserve the resource count for its holder on others,
 * which is probably one of the waiters that they reserve it for.
 */
export function holderOf(tokens: readonly (string | undefined)[]): string | undefined {
  const quorum = quorumOf(tokens.length)
  const named = tokens.filter((token) => token !== undefined && token !== RESERVED)
  return [...named, RESERVED].find(
    (token) => tokens.filter((one) => one === token || one === RESERVED).length >= quorum,
  )
}

/**
 * What a quorum agrees on, of the masters that have one holder's key; undefined if they are fewer.
 * It is free when fewer than a quorum have the key.
 */
export function heldBy(
  keys: readonly Pick<MasterView, 'ttlMs' | 'counter'>[],
  quorum: number,
): Omit<NonNullable<Inspection['holder']>, 'name'> | undefined {
  const shortest = keys.map(({ ttlMs = 0 }) => ttlMs).sort((a, b) => b - a)[quorum - 1]
  // A quorum stores exactly the token that was granted; a straggler may be above it.
  const counter = keys.map((key) => key.counter ?? 0).sort((a, b) => a - b)[quorum - 1]
  if (shortest === undefined || counter === undefined) return undefined
  return { fencingToken: counter, freeInMs: shortest }
}
