/**
 * Takes a resource from whoever holds it. The holder is not asked and still runs: until it notices, two of them do, and
 * only a store that compares fencing tokens tells them apart.
 *
 * Each token that was seen is released by name, so that a lease that began in the meantime is not touched; its
 * tombstone refuses what the old holder still sends to get its keys back.
 */
import { releaseProcedure } from '../redlock/verbs/release.ts'
import { describeToken } from '../redlock/verbs/votes.ts'
import { Call } from '../redis/batch.ts'
import type { FleetProbe } from './fleet-probe.ts'
import { seeResource } from './resource-view.ts'

export interface ForcedRelease {
  readonly masters: readonly ReleasedOn[]
  /** Enough masters dropped it, or had nothing, for somebody else to be granted. */
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

export async function forceRelease(
  fleet: FleetProbe,
  resource: string,
  maxLeaseMs: number,
): Promise<ForcedRelease> {
  const seen = await seeResource(fleet, resource)
  const tokens = [...new Set(seen.flatMap(({ token }) => token ?? []))]
  // On every master, also where the key was not seen: it may be on its way there.
  const answers = await fleet.each(async (probe) => {
    const deleted: string[] = []
    for (const token of tokens) {
      const tombstoneMs = TOMBSTONE_LEASES * maxLeaseMs
      const release = new Call(releaseProcedure, [[resource], token, tombstoneMs, 0])
      if (Number(await fleet.call(probe, release)) > 0) deleted.push(token)
    }
    return deleted
  })
  const masters = answers.map((answer): ReleasedOn => {
    const { master } = answer
    if (!answer.ok) return { master, outcome: 'unreachable', problem: answer.problem }
    const [token] = answer.value
    return token === undefined
      ? { master, outcome: 'held nothing' }
      : { master, outcome: 'released', holder: describeToken(token) }
  })
  const reached = masters.filter(({ outcome }) => outcome !== 'unreachable').length
  return { masters, free: reached >= fleet.quorum }
}
