/** What a sick minority costs, beside five healthy masters in the same round. */
import { ProxiedMasters } from '../../../test/support/proxied-masters.ts'
import type { FaultProxy } from '../../../test/support/proxy.ts'
import { OURS } from '../../peers/libraries.ts'
import { figure, type Figure, type Measured, type Table } from '../../report.ts'
import { type Effort, takeTurns } from '../../rounds.ts'
import { LEASE_MS, locks, lockTable, noneMissed, type Harness, type Row } from '../harness.ts'

const SLOW_MS = 50
/** Of the first masters. These two have a limit. */
const HELD = ['black-holed', 'refusing, slow']
const TWO = [
  'black-holed, refusing',
  'black-holed, black-holed',
  'refusing, refusing',
  'slow, slow',
]
const ONE = ['refusing', 'slow']
/**
 * Without ioredis' `commandTimeout` these two never answer when a master does not. The others have
 * limits of their own, or need none.
 */
const NEED_A_LIMIT: readonly string[] = ['redlock-4', 'redis-semaphore']
const COMMAND_TIMEOUT_MS = 200
/** redlock-universal's `timeout`, as in compare:safety; elsewhere it has its default. */
const UNIVERSAL_TIMEOUT_MS = 100

export const degraded: Row = {
  name: 'degraded',
  load:
    'Acquire and release, one at a time, with one or two of five masters sick and, in the same round through proxies of the same ' +
    `kind, with none. Slow is ${SLOW_MS} ms for each reply. redlock 4.2 and redis-semaphore have ioredis' \`commandTimeout\` at ` +
    `${COMMAND_TIMEOUT_MS} ms here: as they are documented, they do not answer at all while a master is away.`,
  async run(harness, effort): Promise<Measured> {
    const tables: Table[] = []
    const figures: Figure[] = []
    for (const fault of effort.some([...HELD, ...TWO, ...ONE])) {
      console.error(`degraded: ${fault}`)
      const rounds = await measure(harness, effort, fault.split(', '))
      const table = lockTable(fault, rounds, [
        ['healthy p50, ms', ({ healthy }) => healthy.medianMs],
        ['p50, ms', ({ sick }) => sick.medianMs],
        ['/ healthy', 'medianRatio'],
        ['healthy p99, ms', ({ healthy }) => healthy.p99Ms],
        ['p99, ms', ({ sick }) => sick.p99Ms],
        ['/ healthy', 'p99Ratio'],
        ['not granted', ({ sick }) => sick.missed],
      ])
      tables.push(table)
      const [which, ratio] = fault.includes(',')
        ? (['median', 'medianRatio'] as const)
        : (['p99', 'p99Ratio'] as const)
      const name = `Acquire, ${which}, ${fault} / healthy`
      if (HELD.includes(fault)) {
        figures.push(figure(name, rounds.spread(OURS, ratio), 'x', { atMost: 1.2 }))
      }
      figures.push(noneMissed(rounds, ({ sick }) => sick.missed))
    }
    return { tables, figures }
  },
}

async function measure(harness: Harness, effort: Effort, faults: readonly string[]) {
  await using healthy = await ProxiedMasters.start(harness.fleet.masters)
  await using faulty = await ProxiedMasters.start(harness.fleet.masters)
  const options = (name: string): object => ({
    ...(name === 'redlock-universal' && { masterTimeoutMs: UNIVERSAL_TIMEOUT_MS }),
    ...(NEED_A_LIMIT.includes(name) && { commandTimeoutMs: COMMAND_TIMEOUT_MS }),
  })
  const open = ({ urls }: ProxiedMasters) =>
    harness.open(locks, (name) => ({ urls, ...options(name) }))
  await using onHealthy = await open(healthy)
  await using onFaulty = await open(faulty)
  const sickProxies = faults.map((fault, index) => [fault, faulty.proxy(index)] as const)
  for (const [fault, proxy] of sickProxies) await strike(proxy, fault)
  const durationMs = effort.of(600, 60)
  const flow = { concurrency: 1, resources: 1_000, durationMs, ttlMs: LEASE_MS }
  const rounds = await takeTurns(locks, effort, async (contender) => {
    const well = await onHealthy.of(contender).load('flow', flow)
    const sick = await onFaulty.of(contender).load('flow', flow)
    const ratios = { medianRatio: sick.medianMs / well.medianMs, p99Ratio: sick.p99Ms / well.p99Ms }
    return { healthy: well, sick, ...ratios }
  })
  for (const [fault, { counters }] of sickProxies) {
    const { resets, requests, replies } = counters
    const seen = fault === 'slow' ? replies.delayed : fault === 'refusing' ? resets : requests.lost
    if (seen === 0) throw new Error(`The fault did not happen: ${fault}`)
  }
  await faulty.pass()
  return rounds
}

async function strike(proxy: FaultProxy, fault: string): Promise<void> {
  if (fault === 'refusing') await proxy.refuse()
  else if (fault === 'black-holed') await proxy.drop()
  else proxy.delay({ repliesMs: SLOW_MS })
}
