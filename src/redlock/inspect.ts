/** Asks every master about one resource, and says who holds it; or one master, who waits. */
import { QuorumUnreachableError } from '../lock-errors.ts'
import type { Inspection } from '../lock/inspection.ts'
import { missingVotes, type Seen } from '../missing-votes.ts'
import { QuorumLease } from './attempt.ts'
import { callOf, USUAL } from './wire/calls.ts'
import { callMaster, type Master } from './wire/master.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { whyUngranted } from './fleet/readiness.ts'
import { heldBy, holderOf, quorumOf } from './quorum.ts'
import { describeToken } from '../names.ts'

export async function inspect(fleet: LockFleet, resource: string): Promise<Inspection> {
  const { clock, masterTimeoutMs } = fleet.settings
  const call = callOf({ verb: 'inspect', resources: [resource] })
  const seen = await Promise.all(
    fleet.masters.map(async (master): Promise<Seen> => {
      const result = await callMaster(master, clock, call, masterTimeoutMs)
      if (result.kind === 'failed') return { master: master.name, problem: result.detail }
      return seenBy(master.name, result.reply)
    }),
  )
  const masters = seen.map(({ token, ...view }) => view)
  if (seen.filter(({ problem }) => problem === undefined).length < fleet.quorum) {
    const answers = masters.map(({ master, problem }) => ({ master, answer: problem ?? 'ok' }))
    throw new QuorumUnreachableError(resource, fleet.quorum, 0, answers)
  }
  const [holder, ungranted] = [holderAmong(seen), whyUngranted(fleet)]
  const restarted = fleet.status().flatMap((of) => (of.state === 'quarantined' ? of.name : []))
  const unknown = holder ? undefined : missingVotes(seen, restarted)
  const found = { resource, masters, ...(holder && { holder }), ...(unknown && { unknown }) }
  return { ...found, ...(ungranted && { ungranted }) }
}

/** For which resources others than their holders here wait; undefined where a master is silent. */
export async function waitedFor(
  { leases, masters, settings: { clock, masterTimeoutMs } }: LockFleet,
  resources: readonly string[],
): Promise<readonly string[] | undefined> {
  const asked = new Set(resources)
  const holders = leases.members().filter((lease) => lease.resources.some((one) => asked.has(one)))
  const names = holders.map((lease) => (lease instanceof QuorumLease ? lease.waiter : ''))
  const waiter = `,${names.join()},`
  const master = masters[Math.floor(clock.random() * masters.length)] as Master
  const call = callOf({ verb: 'waited-for', resources, waiter })
  const result = await callMaster(master, clock, call, masterTimeoutMs)
  if (result.kind === 'failed') return undefined
  const [, ...places] = result.reply === USUAL ? [] : (result.reply as readonly unknown[])
  return resources.filter((_, place) => places.includes(place + 1))
}

/** @param reply of `lua/inspect.lua`. */
export function seenBy(master: string, reply: unknown): Seen {
  const [, token, ttlMs, counter] = reply as [string, string | null, number, string | null]
  return {
    master,
    ...(token !== null && { token, holder: describeToken(token), ttlMs }),
    ...(counter !== null && { counter: Number(counter) }),
  }
}

/** Who holds a quorum; `seen` has one entry for every master of the fleet. */
export function holderAmong(seen: readonly Seen[]): Inspection['holder'] {
  const holder = holderOf(seen.map(({ token }) => token))
  if (holder === undefined) return undefined
  // Masters that reserve the resource for its waiters have no key of the holder.
  const keys = seen.filter(({ token }) => token === holder)
  const held = heldBy(keys, quorumOf(seen.length)) ?? { fencingToken: 0, freeInMs: 0 }
  return { name: describeToken(holder), ...held }
}
