/** What tenants and weights do to the work that is done. */
import { figure, type Measured } from '../../report.ts'
import { type Effort, sum } from '../../rounds.ts'
import { newQueueName, type Harness, type Row } from '../harness.ts'
import { tenantOf, type KeyedJob } from '../job.ts'

const WORK_MS = 5

interface Tenant {
  readonly name: string
  readonly lines: number
  readonly weight: number
}

/** Works on one slot while all tenants have jobs. How far is a share from what its weight says? */
async function offBy(
  harness: Harness,
  effort: Effort,
  tenants: readonly Tenant[],
): Promise<number> {
  const totalMs = effort.of(21_000, 1_500)
  const queue = newQueueName()
  const weights = sum(tenants.map(({ weight }) => weight))
  // One tenant might be served alone: each has jobs for nearly the whole time.
  const jobs = tenants.flatMap(({ name, lines, weight }) =>
    Array.from({ length: Math.ceil(totalMs / WORK_MS) }, (_, index): KeyedJob => {
      const key = `${queue}-tenant:${name}-weight:${weight}-${index % lines}`
      return { key, nr: Math.floor(index / lines), workMs: WORK_MS }
    }),
  )
  await harness.add('tenants', queue, jobs)
  await harness.workers.work(harness.orders('tenants', queue, 1), 1)
  await harness.workers.completed(Math.floor((totalMs / WORK_MS) * (weights > 2 ? 0.9 : 0.8)))
  const { runs } = await harness.workers.stop()
  await harness.clear('tenants', queue)
  const works = tenants.map(({ name }) => {
    const own = runs.filter((run) => tenantOf(run) === name)
    return sum(own.map(({ startedAt, endedAt }) => endedAt - startedAt))
  })
  const off = tenants.map(({ weight }, index) =>
    Math.abs(((works[index] ?? 0) / sum(works)) * (weights / weight) - 1),
  )
  return Math.max(...off) * 100
}

async function worst(
  harness: Harness,
  effort: Effort,
  tenants: readonly Tenant[],
): Promise<Measured> {
  const off: number[] = []
  while (off.length < effort.rounds) off.push(await offBy(harness, effort, tenants))
  return { figures: [figure('a share is off by, at most', Math.max(...off), '%', { atMost: 5 })] }
}

export const weights: Row = {
  name: 'weights',
  load: `3 full lines with weights 1:2:4, ${WORK_MS} ms jobs, 1 slot`,
  run(harness, effort) {
    const lines = [1, 2, 4].map((weight) => ({ name: `w${weight}`, lines: 1, weight }))
    return worst(harness, effort, lines)
  },
}

const BIG_AND_SMALL: readonly Tenant[] = [
  { name: 'big', lines: 50, weight: 1 },
  { name: 'small', lines: 1, weight: 1 },
]

export const tenants: Row = {
  name: 'tenants',
  load: `a tenant with 50 full lines beside one with 1, ${WORK_MS} ms jobs, 1 slot`,
  run: (harness, effort) => worst(harness, effort, BIG_AND_SMALL),
}
