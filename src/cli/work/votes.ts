/** How many masters vote, asked when a probe asks, and at most once a second however many do. */
import type { Clock } from '../../clock.ts'
import { diagnose } from '../../operator/diagnosis.ts'
import type { FleetProbe } from '../../operator/fleet-probe.ts'
import { surveyFleet } from '../../operator/survey.ts'
import type { Votes } from './health.ts'

const FRESH_MS = 1_000

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
