/** What every master says about one resource, also where a Redlock would refuse the fleet. */
import type { Inspection } from '../../lock/inspection.ts'
import { holderAmong, seenBy, type Seen } from '../../redlock/inspect.ts'
import { callOf } from '../../redlock/wire/calls.ts'
import { counted } from '../../counted.ts'
import { shortened } from '../../options.ts'
import { duration } from './duration.ts'
import { fewAnswer, hasQuorum, tooFewAnswer } from './fleet-probe.ts'
import type { Coverage, FleetProbe, UnreachableMaster } from './fleet-probe.ts'
import { printable } from './printable.ts'

export interface ResourceView extends Inspection, Pick<Coverage, 'service'> {
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

export function coverageOf({ masters, quorum, unreachable }: ResourceView): Coverage {
  return { masters: masters.length, quorum, unreachable }
}

/** Who holds it, in one sentence that is true also where masters do not answer. */
export function holderLine(view: ResourceView): string {
  const { holder, masters, state } = view
  const name = shortened(printable(view.resource))
  if (holder !== undefined) {
    const expiry =
      holder.freeInMs < 0 ? 'without expiry' : `for another ${duration(holder.freeInMs)}`
    return `${name} is held by ${printable(holder.name)} ${expiry}, with fencing token ${holder.fencingToken}`
  }
  const coverage = coverageOf(view)
  if (!hasQuorum(coverage)) return `The holder of ${name} is not known: ${tooFewAnswer(coverage)}`
  const withKey = masters.filter((master) => master.holder !== undefined).length
  if (state === 'unknown') {
    return `${name} may be held: ${withKey} of ${counted(masters.length, 'master has', 'masters have')} a key, and ${counted(view.unreachable.length, 'does', 'do')} not answer`
  }
  if (withKey === 0) return `${name} is free`
  return `${name} is free (${withKey} of ${counted(masters.length, 'master still has', 'masters still have')} a leftover key)`
}
