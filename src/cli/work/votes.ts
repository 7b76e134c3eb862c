/** How many masters vote, asked when a probe asks, and at most once a second however many do. */
import { withinMs, type Clock } from '../../clock.ts'
import type { LockClient } from '../../lock/lock-client.ts'
import { diagnose } from '../../operator/diagnosis.ts'
import type { FleetProbe } from '../../operator/fleet-probe.ts'
import { surveyFleet } from '../../operator/survey.ts'
import type { Votes } from './health.ts'

const FRESH_MS = 1_000
/** A probe of an orchestrator waits for a second or two. */
const SERVICE_MS = 900

export function votesOf(fleet: FleetProbe, clock: Clock): () => Promise<Votes> {
  let askedAt = -Infinity
  let answer: Promise<Votes> | undefined
  const ask = async (): Promise<Votes> => {
    const { voting, quorum } = diagnose(await surveyFleet(fleet))
    return { voting, quorum }
  }
  return () => {
    if (answer === undefined || clock.now() - askedAt >= FRESH_MS) {
      askedAt = clock.now()
      answer = ask()
    }
    return answer
  }
}

/** A service besides Redis counts as one master. */
export async function votesOfService(locks: LockClient, clock: Clock): Promise<Votes> {
  const health = await withinMs(clock, SERVICE_MS, locks.health())
  return { voting: health !== undefined && health.problem === undefined ? 1 : 0, quorum: 1 }
}
