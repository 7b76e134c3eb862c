/**
 * Takes a resource from its holder. The holder is not asked and still runs: until it notices, two
 * of them do, and only a store that compares fencing tokens tells them apart.
 *
 * Each token that was seen is released by name, so that a lease that began in the meantime is not
 * touched; its tombstone refuses what the old holder still sends to get its keys back. Then every
 * master is asked again: the answer says what holds now, and not what should.
 */
import { describeToken } from '../../names.ts'
import { callOf, USUAL } from '../../redlock/wire/calls.ts'
import type { FleetProbe } from './fleet-probe.ts'
import { storedMaxLeaseMs } from './survey.ts'
import { seeResource, viewResource, type ResourceView } from './resource-view.ts'

export interface ForcedRelease {
  readonly masters: readonly ReleasedOn[]
  /** What the masters say afterwards. */
  readonly after: ResourceView
  /** No lease on the resource can have a quorum now. */
  readonly free: boolean
}

export interface ReleasedOn {
  readonly master: string
  readonly outcome: 'released' | 'held nothing' | 'unreachable'
  /** Whose lease was released. */
  readonly holder?: string
  readonly problem?: string
}

/** As for an abandoned attempt: longer than every command of the holder that may still travel. */
const TOMBSTONE_LEASES = 2
/** Longer than the default: a tombstone that lives too long only takes memory. */
const UNKNOWN_MAX_LEASE_MS = 60_000

/** @param maxLeaseMs as clients have it; by default, as the masters have it stored. */
export async function forceRelease(
  fleet: FleetProbe,
  resource: string,
  maxLeaseMs?: number,
): Promise<ForcedRelease> {
  const leaseMs = maxLeaseMs ?? (await storedMaxLeaseMs(fleet)) ?? UNKNOWN_MAX_LEASE_MS
  const seen = await seeResource(fleet, resource)
  const tokens = [...new Set(seen.flatMap(({ token }) => token ?? []))]
  // On every master, also where the key was not seen: it may be on its way there.
  const answers = await fleet.each(async (probe) => {
    const deleted: string[] = []
    for (const token of tokens) {
      const named = { resources: [resource], token, leaseMs: TOMBSTONE_LEASES * leaseMs }
      const release = callOf({ verb: 'release', ...named })
      if ((await fleet.call(probe, release)) === USUAL) deleted.push(token)
    }
    return deleted
  })
  const masters = answers.map((answer, index): ReleasedOn => {
    const { master } = answer
    // With no token there was no second question, and the first one may have failed.
    const problem = answer.ok ? seen[index]?.problem : answer.problem
    const [token] = answer.ok ? answer.value : []
    if (token !== undefined) return { master, outcome: 'released', holder: describeToken(token) }
    if (problem !== undefined) return { master, outcome: 'unreachable', problem }
    return { master, outcome: 'held nothing' }
  })
  const after = await viewResource(fleet, resource)
  return { masters, after, free: after.state === 'free' }
}
