/** Ours beside the other contenders, over the rounds. */
import { shown } from './format.ts'
import type { Rounds } from './rounds.ts'
import { spread, type Spread } from './statistics.ts'

export interface Contender {
  readonly name: string
  readonly title: string
  /** `bound`: it promises less, and shows what could be at best. */
  readonly kind: 'ours' | 'peer' | 'bound'
}

type All<Result> = Rounds<Contender, Result>
type Value<Result> = (result: Result) => number

export function oursIn<One extends Contender>({
  contenders,
}: {
  readonly contenders: readonly One[]
}): One {
  const ours = contenders.find(({ kind }) => kind === 'ours')
  if (ours === undefined) throw new Error('Ours was not measured')
  return ours
}

/** Ours beside whichever of the others does best: for a figure. */
export function besideBestPeer<Result>(
  rounds: All<Result>,
  of: Value<Result>,
  better: 'more' | 'less',
): { readonly measured: Spread; readonly beside: string; readonly unit: 'x' } {
  const sign = better === 'more' ? -1 : 1
  const rank = (contender: Contender): number => {
    const median = rounds.median(contender, of)
    return Number.isFinite(median) ? sign * median : Infinity
  }
  const peers = rounds.contenders.filter(({ kind }) => kind === 'peer')
  const [peer] = peers.sort((a, b) => rank(a) - rank(b))
  if (peer === undefined) throw new Error('A peer was expected')
  const measured = rounds.compared(oursIn(rounds), peer, (one, other) => of(one) / of(other))
  return { measured, beside: peer.title, unit: 'x' }
}

/** A row of a table for each contender. */
export function tableRows<Result>(
  rounds: All<Result>,
  columns: readonly Value<Result>[],
): readonly (readonly string[])[] {
  return rounds.contenders.map((contender) => [
    contender.title,
    ...columns.map((of) => shown(spread(rounds.values(contender, of)))),
  ])
}

/** What ours must never come to. */
export function oursMustNot<Result>(
  rounds: All<Result>,
  count: Value<Result>,
  what: (times: number) => string,
): readonly string[] {
  const times = rounds.of(oursIn(rounds)).reduce((sum, result) => sum + count(result), 0)
  return times > 0 ? [what(times)] : []
}
