/** One answer for many, and what follows a crash. */
import { randomUUID } from 'node:crypto'
import { Crew } from '../crew.ts'
import type { Contender } from '../job.ts'
import { inTurns, type Lab, type Load, type Outcome } from '../lab.ts'
import type { Row } from '../row.ts'
import { CONCURRENCY, of, worst } from './rounds.ts'

export const twins: Row = {
  name: 'twins',
  load: '100 jobs that ask for the same answer of 200 ms, 4 processes × 5',
  async run(lab, count) {
    const outcomes: Outcome[] = []
    for (let round = 0; round < count; round++) {
      const key = randomUUID() // The answers of earlier rounds are kept for a while.
      const jobs = inTurns(1, 100, 200).map((job) => ({ ...job, key }))
      const load: Load = { jobs, concurrency: CONCURRENCY, added: 'after' }
      outcomes.push(await lab.run('dedupe', load))
    }
    return [
      {
        name: 'computations',
        value: worst(outcomes, ({ runs }) => runs.length),
        atLeast: 1,
        atMost: 1,
        kind: 'correctness',
      },
      {
        name: 'until all 100 have the answer',
        value: of(outcomes, ({ tookMs }) => tookMs),
        unit: 'ms',
        kind: 'reference',
      },
    ]
  },
}

const CRASH_LIMIT_MS = 30_000

/** Three jobs of a key; the process that runs the first one is killed in the middle. */
async function afterCrash(
  lab: Lab,
  contender: Contender,
): Promise<{ readonly order: readonly number[]; readonly firstMs: number }> {
  const queue = `q-${randomUUID().slice(0, 8)}`
  const crew = await Crew.start(2)
  // Long enough that the second process is there before the first one is done with the first job.
  // A key of its own: the last round left an unfinished job behind, in whose line nobody else would come first.
  const jobs = [0, 1, 2].map((nr) => ({ key: `hot-${queue}`, nr, workMs: 1_500 }))
  const orders = { ...lab.orders(contender, queue, CONCURRENCY), announce: true }
  try {
    const [first, second] = crew.workers
    if (first === undefined || second === undefined) throw new Error('There are no workers')
    await first.work(orders)
    const entered = first.next('entered', CRASH_LIMIT_MS)
    await lab.add(contender, queue, jobs)
    await entered
    await second.work(orders)
    const killedAt = performance.now()
    let firstMs = Infinity
    await first.kill()
    const order: number[] = []
    while (order.length < 3) {
      const { nr } = await second.next('entered', CRASH_LIMIT_MS)
      if (order.length === 0) firstMs = performance.now() - killedAt
      order.push(nr)
    }
    return { order, firstMs }
  } catch {
    return { order: [], firstMs: Infinity } // Nothing of this key ran any more.
  } finally {
    await crew[Symbol.asyncDispose]()
  }
}

export const crash: Row = {
  name: 'crash',
  load: `3 jobs of a key, lease 2,000 ms, kill -9 of the process that runs the first one`,
  async run(lab, count) {
    const delays: number[] = []
    let inOrder = 0
    for (let round = 0; round < count; round++) {
      const { order, firstMs } = await afterCrash(lab, 'strict')
      delays.push(firstMs)
      if (order.join() === '0,1,2') inOrder++
    }
    const theirs = await afterCrash(lab, 'groupmq')
    return [
      { name: 'rounds out of order', value: count - inOrder, atMost: 0, kind: 'correctness' },
      {
        name: 'the first runs again after (worst)',
        value: Math.max(...delays),
        unit: 'ms',
        atMost: 4_000,
        kind: 'speed',
      },
      {
        name: `… groupmq (${theirs.order.length} of 3 ran within ${CRASH_LIMIT_MS / 1_000} s)`,
        value: theirs.firstMs,
        unit: 'ms',
        kind: 'reference',
      },
    ]
  },
}
