/** What tenants and weights do to the work that is done, and what they cost. */
import { newQueueName, type Harness } from '../harness.ts'
import { tenantOf, type Contender, type KeyedJob } from '../job.ts'
import { sum } from '../../statistics.ts'
import type { Effort } from '../../effort.ts'
import { reference, speed, type Figure, type Row } from '../row.ts'

const WORK_MS = 5
const TOTAL_MS = { whole: 21_000, smoke: 1_500 }

interface Tenant {
  readonly name: string
  readonly lines: number
  readonly weight: number
}

/** Milliseconds of work of each tenant, on one slot, while all of them have jobs. */
async function worked(
  harness: Harness,
  contender: Contender,
  tenants: readonly Tenant[],
  { smoke }: Effort,
): Promise<readonly number[]> {
  const totalMs = smoke ? TOTAL_MS.smoke : TOTAL_MS.whole
  const queue = newQueueName()
  const weights = sum(tenants.map(({ weight }) => weight))
  // groupmq may serve one tenant alone: each has jobs for nearly the whole time.
  const jobs = tenants.flatMap(({ name, lines, weight }) =>
    Array.from({ length: Math.ceil(totalMs / WORK_MS) }, (_, index): KeyedJob => {
      const key = `${queue}-tenant:${name}-weight:${weight}-${index % lines}`
      return { key, nr: Math.floor(index / lines), workMs: WORK_MS }
    }),
  )
  await harness.add(contender, queue, jobs)
  await harness.processes.work(harness.orders(contender, queue, 1), 1)
  await harness.processes.completed(Math.floor((totalMs / WORK_MS) * (weights > 2 ? 0.9 : 0.8)))
  const { runs } = await harness.stop()
  return tenants.map(({ name }) =>
    runs
      .filter(({ key }) => tenantOf(key) === name)
      .reduce((sum, { startedAt, endedAt }) => sum + endedAt - startedAt, 0),
  )
}

/** How far the share of a tenant is from what its weight says, at most, in percent. */
function furthest(tenants: readonly Tenant[], works: readonly number[]): number {
  const total = sum(works)
  const weights = sum(tenants.map(({ weight }) => weight))
  const off = tenants.map(({ weight }, index) =>
    Math.abs(((works[index] ?? 0) / total) * (weights / weight) - 1),
  )
  return Math.max(...off) * 100
}

async function fairness(
  harness: Harness,
  tenants: readonly Tenant[],
  extent: Effort,
): Promise<readonly Figure[]> {
  const found: number[] = []
  let last: readonly number[] = []
  for (let round = 0; round < extent.rounds; round++) {
    last = await worked(harness, 'tenants', tenants, extent)
    found.push(furthest(tenants, last))
  }
  return [
    speed('a share is off by, at most', Math.max(...found), '%', {
      ...{ must: { atMost: 5 }, note: inMs(last) },
    }),
  ]
}

const inMs = (works: readonly number[]): string =>
  `work in ms: ${works.map((ms) => ms.toFixed(0)).join(', ')}`

export const weights: Row = {
  name: 'weights',
  load: `3 full lines with weights 1:2:4, ${WORK_MS} ms jobs, 1 slot`,
  run: (harness, extent) =>
    fairness(
      harness,
      [1, 2, 4].map((weight) => ({ name: `w${weight}`, lines: 1, weight })),
      extent,
    ),
}

const BIG_AND_SMALL: readonly Tenant[] = [
  { name: 'big', lines: 50, weight: 1 },
  { name: 'small', lines: 1, weight: 1 },
]

export const tenants: Row = {
  name: 'tenants',
  load: `a tenant with 50 full lines beside one with 1, ${WORK_MS} ms jobs, 1 slot`,
  async run(harness, extent) {
    const ours = await fairness(harness, BIG_AND_SMALL, extent)
    const others = ['strict', 'groupmq'] as const
    const figures: Figure[] = []
    for (const contender of extent.smoke ? others.slice(0, 1) : others) {
      const works = await worked(harness, contender, BIG_AND_SMALL, extent)
      const name = contender === 'strict' ? 'without tenants' : contender
      figures.push({
        ...reference(`… ${name}`, furthest(BIG_AND_SMALL, works), '%'),
        note: inMs(works),
      })
    }
    return [...ours, ...figures]
  },
}
