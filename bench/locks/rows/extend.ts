/** Renewing leases that are held. */
import { contenders, type Contender } from '../contender.ts'
import { type Lab, LEASE_MS, type MasterCost } from '../lab.ts'
import type { ExtensionsResult } from '../loads/calls.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import { named, oursMustNot, tableRows } from '../beside.ts'
import type { Measured, Row, Table } from '../row.ts'

const LEASES = [1, 64] as const
const FOR_MS = 700

type Sample = ExtensionsResult & MasterCost

interface Level {
  readonly leases: number
  readonly rounds: Rounds<Contender, Sample>
}

export const extend: Row = {
  name: 'extend',
  load: 'So many leases are extended at the same time, each again as soon as it was. redis-semaphore offers no call for it: measured is what its timer does.',
  async run(lab) {
    const levels: Level[] = []
    for (const leases of LEASES) levels.push(await measure(lab, leases))
    return {
      tables: levels.map(tableOf),
      figures: [],
      wrong: levels.flatMap(({ leases, rounds }) =>
        oursMustNot(
          rounds,
          ({ failed }) => failed,
          (times) => `extend, ${leases} leases: ${times} extensions failed`,
        ),
      ),
      samples: levels.map(({ leases, rounds }) => ({ leases, rounds: named(rounds) })),
    } satisfies Measured
  },
}

async function measure(lab: Lab, leases: number): Promise<Level> {
  lab.say(`extend: ${titleOf(leases)}`)
  await using groups = await lab.open(contenders)
  const durationMs = lab.effort.forMs(FOR_MS)
  const rounds = await takeTurns(contenders, lab.effort, (contender) => {
    const { process, group } = groups.of(contender)
    const load = { group, ttlMs: LEASE_MS, leases, durationMs }
    return lab.metered(() => process.ask('extensions', load))
  })
  return { leases, rounds }
}

function tableOf({ leases, rounds }: Level): Table {
  return {
    title: titleOf(leases),
    head: ['', 'extensions/s', 'p50, ms', 'p99, ms', 'client CPU, µs', 'masters CPU, µs'],
    rows: tableRows(rounds, [
      ({ done, tookMs }) => (done / tookMs) * 1_000,
      ({ extendMs }) => extendMs.p50,
      ({ extendMs }) => extendMs.p99,
      ({ done, cpuMs }) => (cpuMs / done) * 1_000,
      ({ done, mastersCpuMs }) => (mastersCpuMs / done) * 1_000,
    ]),
  }
}

function titleOf(leases: number): string {
  return leases === 1 ? '1 lease' : `${leases} leases`
}
