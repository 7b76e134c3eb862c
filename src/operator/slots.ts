/**
 * The slots of a resource: `gpu#1`, `gpu#2`, … How many there are is known to the callers that
 * acquire them. So every slot that there can be is read, which is a few script calls on each
 * master.
 */
import { mergeLeases, readLeases, type LiveLease } from './live-leases.ts'
import type { FleetProbe } from './fleet-probe.ts'

/** The largest value of the option `slots`. */
const MAX_SLOTS = 1_000

/** The slots that a master has a key of, in the order of their numbers. */
export async function slotsOf(fleet: FleetProbe, resource: string): Promise<readonly LiveLease[]> {
  const names = Array.from({ length: MAX_SLOTS }, (_, index) => `${resource}#${index + 1}`)
  const views = await fleet.each((probe) => readLeases(probe, fleet.keys, names))
  return [...mergeLeases(views, fleet.quorum)].sort(
    (a, b) => slotNumber(a) - slotNumber(b) || b.votes - a.votes,
  )
}

function slotNumber({ resource }: LiveLease): number {
  return Number(resource.slice(resource.lastIndexOf('#') + 1))
}
