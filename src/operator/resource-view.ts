/** What every master says about one resource, also where a Redlock would refuse the fleet. */
import type { Inspection } from '../lock/inspection.ts'
import { holderAmong, inspectProcedure, type Seen } from '../redlock/verbs/inspect.ts'
import { describeToken } from '../redlock/verbs/votes.ts'
import { Call } from '../redis/batch.ts'
import type { FleetProbe } from './fleet-probe.ts'

export interface ResourceView extends Inspection {
  /** How many masters answered: fewer than a quorum, and nobody can be said to hold it or not. */
  readonly answered: number
}

export async function viewResource(fleet: FleetProbe, resource: string): Promise<ResourceView> {
  const seen = await seeResource(fleet, resource)
  const holder = holderAmong(seen)
  return {
    resource,
    answered: seen.filter(({ problem }) => problem === undefined).length,
    masters: seen.map(({ token: _, ...view }) => view),
    ...(holder !== undefined && { holder }),
  }
}

/** One view of every master, with the holder's whole token. */
export async function seeResource(fleet: FleetProbe, resource: string): Promise<readonly Seen[]> {
  const inspect = new Call(inspectProcedure, [resource])
  const answers = await fleet.each((probe) => fleet.call(probe, inspect))
  return answers.map((answer): Seen => {
    const { master } = answer
    if (!answer.ok) return { master, problem: answer.problem }
    const [token, ttlMs, counter] = answer.value as [string | null, number, string | null]
    return {
      master,
      ...(token !== null && { token, holder: describeToken(token), ttlMs }),
      ...(counter !== null && { counter: Number(counter) }),
    }
  })
}
