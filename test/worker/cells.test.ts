/**
 * A worker whose locks are spread over cells: the loss of one stops the jobs of its resources, and
 * no others.
 */
import { expect, test } from 'vitest'
import { LockedQueue, LockedWorker, RedlockCells, silentLogger } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: number
  readonly nr: number
}

const fixture = useFleet({ masters: 4 })
const CUSTOMERS = 12
const JOBS_EACH = 5

test('jobs of a cell that is down wait, all others run, each customer in order', async () => {
  const [a1, a2, b1, b2] = fixture.fleet.urls as [string, string, string, string]
  const { host, port } = fixture.fleet.queue
  const { namespace } = fixture
  const redlock = new RedlockCells({
    cells: { a: [a1, a2], b: [b1, b2] },
    leaseMs: 1_000,
    maxLeaseMs: 1_000,
    masterTimeoutMs: 500,
    namespace,
    logger: silentLogger,
  })
  fixture.defer(() => redlock.close())
  await redlock.ready()
  for (const cell of redlock.cells.values()) await cell.bootstrap({ newFleet: true })
  const resource = ({ customer }: Charge): string => `customer:${customer}`
  const queue = new LockedQueue<Charge>(namespace, {
    connection: { host, port },
    resource,
    namespace,
  })
  fixture.defer(() => queue.close())
  await fixture.fleet.masters[0]?.kill()

  const done: Charge[] = []
  const breaker: string[] = []
  const worker = new LockedWorker<Charge>(
    namespace,
    (job) => {
      done.push(job.data)
      return Promise.resolve()
    },
    {
      connection: { host, port },
      redlock,
      resource: (job) => resource(job.data),
      concurrency: 4,
      logger: silentLogger,
    },
  )
  fixture.defer(() => worker.close())
  worker.on('error', () => undefined)
  worker.on('breaker', (state) => breaker.push(state))
  const customers = Array.from({ length: CUSTOMERS }, (_, customer) => customer)
  await queue.addBulk(
    customers.flatMap((customer) =>
      Array.from({ length: JOBS_EACH }, (_, nr) => ({ name: 'charge', data: { customer, nr } })),
    ),
  )
  const inCell = (cell: string): number[] =>
    customers.filter((customer) => redlock.cellOf(`customer:${customer}`) === cell)
  expect(inCell('a').length * inCell('b').length).toBeGreaterThan(0)
  const jobsDone = (cell: string): number =>
    done.filter(({ customer }) => inCell(cell).includes(customer)).length
  await until('the other cell is done', () => jobsDone('b') === inCell('b').length * JOBS_EACH)
  expect(jobsDone('a')).toBe(0)
  expect(breaker).toEqual([])
  await fixture.fleet.masters[0]?.restart()
  await until(
    'all are done',
    async () => (await queue.getCompletedCount()) === CUSTOMERS * JOBS_EACH,
  )
  for (const customer of customers) {
    const order = done.filter((one) => one.customer === customer).map(({ nr }) => nr)
    expect(order).toEqual([0, 1, 2, 3, 4])
  }
  expect(await queue.getFailedCount()).toBe(0)
})
