/** Rounds in which the contenders take turns, each time beginning with another one. */
import type { Contender } from './contender.ts'
import { shown } from './format.ts'
import type { Panel } from './row.ts'
import { ratios, spread, type Spread } from './statistics.ts'

/** The results of each contender, in the order of the rounds. */
export type Rounds<Result> = ReadonlyMap<Contender, readonly Result[]>

/** A round before the first one warms up and is not counted. */
export async function interleave<Result>(
  contenders: readonly Contender[],
  count: number,
  measure: (contender: Contender, round: number) => Promise<Result>,
): Promise<Rounds<Result>> {
  const results = new Map<Contender, Result[]>(contenders.map((contender) => [contender, []]))
  for (let round = -1; round < count; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      const contender = contenders[(turn + round + contenders.length) % contenders.length]
      if (contender === undefined) continue
      const result = await measure(contender, round)
      if (round >= 0) results.get(contender)?.push(result)
    }
  }
  return results
}

export function pick<Result>(
  rounds: Rounds<Result>,
  contender: Contender,
  of: (result: Result) => number,
): readonly number[] {
  return (rounds.get(contender) ?? []).map(of)
}

export interface Comparison extends Spread {
  readonly peer: Contender
}

/** Ours beside whichever of the others does best. */
export function besideBestPeer<Result>(
  rounds: Rounds<Result>,
  of: (result: Result) => number,
  better: 'more' | 'less',
): Comparison {
  const all = [...rounds.keys()]
  const medianOf = (contender: Contender): number => {
    const { median } = spread(pick(rounds, contender, of))
    return Number.isFinite(median) ? median : better === 'more' ? -Infinity : Infinity
  }
  const ours = all.find(({ kind }) => kind === 'ours')
  const [peer] = all
    .filter(({ kind }) => kind === 'peer')
    .sort((a, b) => (medianOf(a) - medianOf(b)) * (better === 'more' ? -1 : 1))
  if (ours === undefined || peer === undefined) throw new Error('Ours and a peer were expected')
  return { peer, ...spread(ratios(pick(rounds, ours, of), pick(rounds, peer, of))) }
}

/** For `--json`: by the contenders' names. */
export function named<Result>(rounds: Rounds<Result>): Readonly<Record<string, readonly Result[]>> {
  return Object.fromEntries([...rounds].map(([{ name }, results]) => [name, results]))
}

/** A row of a table for each contender. */
export function tableRows<Result>(
  rounds: Rounds<Result>,
  columns: readonly ((result: Result) => number)[],
): readonly (readonly string[])[] {
  return [...rounds.keys()].map((contender) => [
    contender.title,
    ...columns.map((of) => shown(spread(pick(rounds, contender, of)))),
  ])
}

export function bars<Result>(
  rounds: Rounds<Result>,
  of: (result: Result) => number,
): Panel['bars'] {
  return [...rounds.keys()].map((contender) => ({
    label: contender.title,
    kind: contender.kind,
    at: spread(pick(rounds, contender, of)),
  }))
}

/** What ours must never come to. */
export function oursMustNot<Result>(
  rounds: Rounds<Result>,
  count: (result: Result) => number,
  what: (times: number) => string,
): readonly string[] {
  const ours = [...rounds].find(([{ kind }]) => kind === 'ours')?.[1] ?? []
  const times = ours.reduce((sum, result) => sum + count(result), 0)
  return times > 0 ? [what(times)] : []
}
