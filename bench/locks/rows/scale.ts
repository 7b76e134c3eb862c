/** Several processes on few and on many resources. */
import { lockLibraries, type Contender } from '../contender.ts'
import { type Groups, type Lab, LEASE_MS, type MasterCost } from '../lab.ts'
import type { FlowResult } from '../loads/calls.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import { named, tableRows } from '../beside.ts'
import type { Measured, Row, Table } from '../row.ts'

const PROCESSES = [1, 4, 16] as const
const RESOURCES = [10, 1_000, 1_000_000] as const
const AT_ONCE = 8
const FOR_MS = 1_000
const WAIT_MS = 5_000
const ROUNDS = 3

interface Sample extends MasterCost {
  readonly done: number
  readonly failed: number
  readonly perSecond: number
  readonly cpuMs: number
  readonly p50Ms: number
  /** Of the process that fares worst. */
  readonly p99Ms: number
}

interface Level {
  readonly processes: number
  readonly resources: number
  readonly rounds: Rounds<Contender, Sample>
}

export const scale: Row = {
  name: 'scale',
  load: `Worker processes with ${AT_ONCE} acquires at a time each, of resources drawn at random. Few resources mean waiting for each other, up to ${WAIT_MS / 1_000} s.`,
  async run(lab) {
    const processes = lab.effort.upTo(Math.max(...PROCESSES), 2)
    lab.say(`scale: starting ${lockLibraries.length * processes} processes`)
    // All of them at the beginning, so that the contenders can take turns.
    await using groups = await lab.open(lockLibraries, () => ({ waitMs: WAIT_MS }), { processes })
    const levels: Level[] = []
    for (const count of lab.effort.smoke ? [2] : PROCESSES) {
      for (const resources of lab.effort.some(RESOURCES)) {
        levels.push(await measure(lab, groups, count, resources))
      }
    }
    return {
      tables: levels.map(tableOf),
      figures: [],
      wrong: [],
      samples: levels.map(({ rounds, ...level }) => ({ ...level, rounds: named(rounds) })),
    } satisfies Measured
  },
}

async function measure(
  lab: Lab,
  groups: Groups,
  processes: number,
  resources: number,
): Promise<Level> {
  lab.say(`scale: ${titleOf(processes, resources)}`)
  const count = { rounds: Math.min(lab.effort.rounds, ROUNDS), warmUps: 1 }
  const rounds = await takeTurns(lockLibraries, count, async (contender, round) => {
    const members = groups.all(contender).slice(0, processes)
    const durationMs = lab.effort.forMs(round < 0 ? FOR_MS / 4 : FOR_MS)
    const flow = { ttlMs: LEASE_MS, concurrency: AT_ONCE, resources, durationMs }
    const load = { ...flow, order: 'random' } as const
    const { results, mastersCpuMs } = await lab.metered(async () => ({
      results: await Promise.all(
        members.map(({ process, group }) => process.ask('flow', { ...load, group })),
      ),
    }))
    return { ...together(results), mastersCpuMs }
  })
  return { processes, resources, rounds }
}

function together(results: readonly FlowResult[]): Omit<Sample, keyof MasterCost> {
  const sum = (of: (result: FlowResult) => number): number =>
    results.reduce((total, result) => total + of(result), 0)
  return {
    done: sum(({ done }) => done),
    failed: sum(({ failed, stuck }) => failed + stuck),
    perSecond: sum(({ done, tookMs }) => (done / tookMs) * 1_000),
    cpuMs: sum(({ cpuMs }) => cpuMs),
    p50Ms: sum(({ acquireMs }) => acquireMs.p50) / results.length,
    p99Ms: Math.max(...results.map(({ acquireMs }) => acquireMs.p99)),
  }
}

function tableOf({ processes, resources, rounds }: Level): Table {
  return {
    title: titleOf(processes, resources),
    head: [
      '',
      'leases/s',
      'in vain',
      'acquire p50, ms',
      'p99, ms',
      'client CPU, µs',
      'masters CPU, µs',
    ],
    rows: tableRows(rounds, [
      ({ perSecond }) => perSecond,
      ({ failed }) => failed,
      ({ p50Ms }) => p50Ms,
      ({ p99Ms }) => p99Ms,
      ({ done, cpuMs }) => (cpuMs / done) * 1_000,
      ({ done, mastersCpuMs }) => (mastersCpuMs / done) * 1_000,
    ]),
  }
}

function titleOf(processes: number, resources: number): string {
  const workers = processes === 1 ? '1 process' : `${processes} processes`
  return `${workers}, ${resources.toLocaleString('en')} resources`
}
