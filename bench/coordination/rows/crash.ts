/** The line of a process that is killed in the middle of a job, beside groupmq's. */
import type { Contender } from '../job.ts'
import { LEASE_MS, newQueueName, type Harness } from '../harness.ts'
import { none, speed, type Row } from '../row.ts'
import { WorkerProcesses } from '../worker-processes.ts'
import { CONCURRENCY } from './rounds.ts'

const LIMIT_MS = 30_000
const SMOKE_LIMIT_MS = 8_000

interface AfterCrash {
  readonly order: readonly number[]
  readonly firstMs: number
}

export const crash: Row = {
  name: 'crash',
  load: `3 jobs of a line, lease ${LEASE_MS} ms, kill -9 of the process that runs the first one`,
  async run(harness, { rounds, smoke }) {
    const limitMs = smoke ? SMOKE_LIMIT_MS : LIMIT_MS
    const delays: number[] = []
    let disordered = 0
    for (let round = 0; round < rounds; round++) {
      const { order, firstMs } = await afterCrash(harness, 'strict', limitMs)
      delays.push(firstMs)
      if (order.join() !== '0,1,2') disordered++
    }
    const theirs = smoke ? undefined : await afterCrash(harness, 'groupmq', limitMs)
    return [
      none('rounds out of order', disordered),
      speed('the first job runs again after, worst', Math.max(...delays), 'ms', {
        must: { atMost: LEASE_MS + 2_000 },
      }),
      ...(theirs === undefined
        ? []
        : [
            {
              name: '… groupmq',
              value: theirs.firstMs,
              unit: 'ms',
              kind: 'reference',
              note: `${theirs.order.length} of 3 ran within ${limitMs / 1_000} s`,
            } as const,
          ]),
    ]
  },
}

async function afterCrash(
  harness: Harness,
  contender: Contender,
  limitMs: number,
): Promise<AfterCrash> {
  const queue = newQueueName()
  await using processes = await WorkerProcesses.start(2)
  const [first, second] = processes.all
  if (first === undefined || second === undefined) throw new Error('There are no workers')
  const orders = { ...harness.orders(contender, queue, CONCURRENCY), announce: true, quiet: true }
  // Long enough that the second process is there before the first job is done.
  const jobs = [0, 1, 2].map((nr) => ({ key: `${queue}-line`, nr, workMs: 1_500 }))
  const order: number[] = []
  let firstMs = Infinity
  try {
    await first.work(orders)
    const entered = first.next('entered', limitMs)
    await harness.add(contender, queue, jobs)
    await entered
    await second.work(orders)
    const killedAt = performance.now()
    await first.kill()
    while (order.length < 3) {
      const { nr } = await second.next('entered', limitMs)
      if (order.length === 0) firstMs = performance.now() - killedAt
      order.push(nr)
    }
  } catch {
    // No job of this line ran in time: the order is what there was.
  }
  await Promise.all(processes.all.map((worker) => worker.kill()))
  await harness.queueRedis.flushall()
  return { order, firstMs }
}
