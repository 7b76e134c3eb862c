/** What every master says about one resource, also where a Redlock would refuse the fleet. */
import type { Inspection } from '../../lock/inspection.ts'
import { holderAmong, seenBy, type Seen } from '../../redlock/inspect.ts'
import { callOf } from '../../redlock/wire/calls.ts'
import { fewAnswer, type FleetProbe, type UnreachableMaster } from './fleet-probe.ts'

export interface ResourceView extends Inspection {
  /**
   * `held`: a quorum of the masters has the same key. `free`: no lease can have a quorum.
   * `unknown`: with the masters that do not answer, a lease might have one.
   */
  readonly state: 'held' | 'free' | 'unknown'
  readonly quorum: number
  /** How many masters answered. */
  readonly answered: number
  readonly unreachable: readonly UnreachableMaster[]
}

export async function viewResource(fleet: FleetProbe, resource: string): Promise<ResourceView> {
  const { quorum } = fleet
  const seen = await seeResource(fleet, resource)
  const holder = holderAmong(seen)
  const unreachable = seen.flatMap(({ master, problem }) =>
    problem === undefined ? [] : [{ master, problem }],
  )
  const answered = seen.length - unreachable.length
  const masters = seen.map(({ token: _, ...view }) => view)
  const view = { resource, quorum, unreachable, answered, masters }
  if (holder !== undefined) return { ...view, state: 'held', holder }
  if (mostVotes(seen) + unreachable.length < quorum) return { ...view, state: 'free' }
  const unknown = fewAnswer({ masters: seen.length, quorum, unreachable })
  return { ...view, state: 'unknown', unknown }
}

/** How many masters have the token that most of them have. */
function mostVotes(seen: readonly Seen[]): number {
  const votes = seen.map(
    ({ token }) => seen.filter((other) => token !== undefined && other.token === token).length,
  )
  return Math.max(0, ...votes)
}

/** One view of every master, with the holder's whole token. */
export async function seeResource(fleet: FleetProbe, resource: string): Promise<readonly Seen[]> {
  const inspect = callOf({ verb: 'inspect', resources: [resource] })
  const answers = await fleet.each((probe) => fleet.call(probe, inspect))
  return answers.map((answer) =>
    answer.ok
      ? seenBy(answer.master, answer.value)
      : { master: answer.master, problem: answer.problem },
  )
}
