/** Acquire and release of free resources over a network that takes its time. */
import { ProxiedMasters } from '../../../test/support/proxied-masters.ts'
import type { FlowResult } from '../../peers/loads.ts'
import type { Figure, Measured } from '../../report.ts'
import { takeTurns, type Rounds } from '../../rounds.ts'
import { besideBest, locks, lockTable, noneMissed, type Row } from '../harness.ts'

const ADDED_MS = [0, 1, 5]
const CONCURRENCY = [1, 16, 64]

export const roundTrip: Row = {
  name: 'round-trip',
  load: 'As `acquire`, through a proxy that adds this time to the round trip to every master.',
  async run(harness, effort): Promise<Measured> {
    const figures: Figure[] = []
    /** By concurrency. */
    const columns = new Map<number, (readonly [string, Rounds<string, FlowResult>])[]>()
    for (const addedMs of effort.some(ADDED_MS)) {
      await using proxies = await ProxiedMasters.start(harness.fleet.masters)
      for (const proxy of proxies.proxies) proxy.delay({ repliesMs: addedMs })
      await using clients = await harness.open(locks, () => ({ urls: proxies.urls }))
      for (const concurrency of effort.some(CONCURRENCY)) {
        const name = `Leases per second, ${addedMs} ms added, ${concurrency} at a time`
        console.error(name)
        const rounds = await takeTurns(locks, effort, (contender) =>
          clients.flow(contender, concurrency, effort.of(500, 60)),
        )
        columns.set(concurrency, [...(columns.get(concurrency) ?? []), [`${addedMs} ms`, rounds]])
        if (addedMs > 0) figures.push(besideBest(name, rounds, 'perSecond', 'more'))
        figures.push(noneMissed(rounds, 'missed'))
      }
    }
    const tables = [...columns].flatMap(([concurrency, [first, ...others]]) => {
      if (first === undefined) return []
      const table = lockTable(`${concurrency} at a time`, first[1], [
        [`leases/s, ${first[0]} added`, 'perSecond'],
        ...others.map(([head, rounds]) => [head, 'perSecond', rounds] as const),
        [`acquire p50, ms, ${first[0]}`, 'medianMs'],
        ...others.map(([head, rounds]) => [head, 'medianMs', rounds] as const),
      ])
      return [table]
    })
    return { tables, figures }
  },
}
