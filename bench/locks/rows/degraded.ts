/** What a sick minority costs, beside five healthy masters in the same round. */
import type { FaultProxy } from '../../../test/support/proxy.ts'
import { lockLibraries } from '../contender.ts'
import { shown } from '../../format.ts'
import type { Clients, Harness } from '../harness.ts'
import type { FlowResult } from '../loads/calls.ts'
import type { ProxiedMasters } from '../../../test/support/proxied-masters.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import { type Contender, oursIn, oursMustNot } from '../../beside.ts'
import type { Figure, Measured, Table } from '../../measured.ts'
import type { Row } from '../harness.ts'
import { spread } from '../../statistics.ts'

type Sickness = 'refusing' | 'black-holed' | 'slow'

const SLOW_MS = 50
/** Of the first masters, in this order. The first two are what the figures are about. */
const FAULTS: readonly (readonly Sickness[])[] = [
  ['black-holed'],
  ['refusing', 'slow'],
  ['black-holed', 'refusing'],
  ['black-holed', 'black-holed'],
  ['refusing'],
  ['refusing', 'refusing'],
  ['slow'],
  ['slow', 'slow'],
]
const RESOURCES = 1_000
const FOR_MS = 600
/**
 * Without it these two never answer when a master does not. The others have limits of their own, or
 * need none.
 */
const NEED_A_LIMIT: ReadonlySet<string> = new Set(['redlock-4', 'redis-semaphore'])
const COMMAND_TIMEOUT_MS = 200
/**
 * redlock-universal's `timeout`, as in compare:safety; elsewhere it has its default.
 */
const UNIVERSAL_TIMEOUT_MS = 100

interface Sample {
  readonly healthy: FlowResult
  readonly sick: FlowResult
}

interface Fault {
  readonly sick: readonly Sickness[]
  readonly rounds: Rounds<Contender, Sample>
}

export const degraded: Row = {
  name: 'degraded',
  load:
    'Acquire and release, one at a time, with one or two of five masters sick and, in the same round through proxies of the same ' +
    `kind, with none. Slow is ${SLOW_MS} ms for each reply. redlock 4.2 and redis-semaphore have ioredis' \`commandTimeout\` at ` +
    `${COMMAND_TIMEOUT_MS} ms here: as they are documented, they do not answer at all while a master is away.`,
  async run(harness) {
    const faults: Fault[] = []
    for (const sick of harness.effort.some(FAULTS)) faults.push(await measure(harness, sick))
    return {
      tables: faults.map(tableOf),
      figures: faults.slice(0, 2).map(figureOf),
      wrong: faults.flatMap(wrongIn),
    } satisfies Measured
  },
}

async function measure(harness: Harness, sick: readonly Sickness[]): Promise<Fault> {
  harness.say(`degraded: ${titleOf(sick)}`)
  await using healthy = await harness.proxies()
  await using faulty = await harness.proxies()
  const open = ({ urls }: ProxiedMasters): Promise<Clients> =>
    harness.open(lockLibraries, ({ name }) => ({
      urls,
      ...(name === 'redlock-universal' && { masterTimeoutMs: UNIVERSAL_TIMEOUT_MS }),
      ...(NEED_A_LIMIT.has(name) && { commandTimeoutMs: COMMAND_TIMEOUT_MS }),
    }))
  await using onHealthy = await open(healthy)
  await using onFaulty = await open(faulty)
  await Promise.all(sick.map((sickness, index) => strike(faulty.proxy(index), sickness)))
  const durationMs = harness.effort.forMs(FOR_MS)
  const flow = { concurrency: 1, resources: RESOURCES, durationMs }
  const rounds = await takeTurns(lockLibraries, harness.effort, async (contender) => ({
    healthy: await onHealthy.flow(contender, flow),
    sick: await onFaulty.flow(contender, flow),
  }))
  sick.forEach((sickness, index) => {
    assertHappened(faulty.proxy(index), sickness)
  })
  await faulty.pass()
  return { sick, rounds }
}

async function strike(proxy: FaultProxy, sickness: Sickness): Promise<void> {
  if (sickness === 'refusing') await proxy.refuse()
  else if (sickness === 'black-holed') await proxy.drop()
  else proxy.delay({ repliesMs: SLOW_MS })
}

/** @throws Error when the fault did not take place: the figures would mean nothing. */
function assertHappened(proxy: FaultProxy, sickness: Sickness): void {
  const { resets, requests, replies } = proxy.counters
  const seen = { refusing: resets, 'black-holed': requests.lost, slow: replies.delayed }
  if (seen[sickness] === 0) throw new Error(`The fault did not happen: ${sickness}`)
}

const medianOf = ({ acquireMs }: FlowResult): number => acquireMs.p50
const p99Of = ({ acquireMs }: FlowResult): number => acquireMs.p99
const missedIn = ({ failed, stuck }: FlowResult): number => failed + stuck

function ratioOf(
  rounds: Rounds<Contender, Sample>,
  contender: Contender,
  of: (result: FlowResult) => number,
): Figure['measured'] {
  return spread(rounds.values(contender, ({ sick, healthy }) => of(sick) / of(healthy)))
}

function tableOf({ sick, rounds }: Fault): Table {
  const head = ['', 'healthy p50, ms', 'p50, ms', '/ healthy', 'healthy p99, ms', 'p99, ms']
  return {
    title: titleOf(sick),
    head: [...head, '/ healthy', 'not granted'],
    rows: rounds.contenders.map((contender) => {
      const cell = (of: (sample: Sample) => number): string =>
        shown(spread(rounds.values(contender, of)))
      return [
        contender.title,
        cell(({ healthy }) => medianOf(healthy)),
        cell((sample) => medianOf(sample.sick)),
        shown(ratioOf(rounds, contender, medianOf)),
        cell(({ healthy }) => p99Of(healthy)),
        cell((sample) => p99Of(sample.sick)),
        shown(ratioOf(rounds, contender, p99Of)),
        cell((sample) => missedIn(sample.sick)),
      ]
    }),
  }
}

function figureOf({ sick, rounds }: Fault): Figure {
  const [which, of] =
    sick.length === 1 ? (['p99', p99Of] as const) : (['median', medianOf] as const)
  return {
    name: `Acquire, ${which}, ${titleOf(sick)} / healthy`,
    ...{ atMost: 1.2, measured: ratioOf(rounds, oursIn(rounds), of), unit: 'x' },
  }
}

function wrongIn({ sick, rounds }: Fault): readonly string[] {
  return oursMustNot(
    rounds,
    (sample) => missedIn(sample.sick),
    (times) => `degraded, ${titleOf(sick)}: ${times} free resources were not granted`,
  )
}

function titleOf(sick: readonly Sickness[]): string {
  const counts = new Map<Sickness, number>()
  for (const sickness of sick) counts.set(sickness, (counts.get(sickness) ?? 0) + 1)
  return [...counts].map(([sickness, count]) => `${count} ${sickness}`).join(' and ')
}
