/** What it costs a producer to add jobs: to busy lines, and through the face of a sharded queue. */
import { figure } from '../../report.ts'
import { median, takeTurns } from '../../rounds.ts'
import { inTurns, newQueueName, type Row } from '../harness.ts'
import type { KeyedJob } from '../job.ts'

const LINES = 50
const BATCH = 1_000
const BATCHES = 3
const IN_A_TICK = 25
const TICKS = 40

export const addBulk: Row = {
  name: 'add-bulk',
  load: `${LINES} busy lines: addBulk of ${BATCH} jobs; ${IN_A_TICK} adds in a tick`,
  async run(harness, effort) {
    const all = await takeTurns(['plain', 'strict'] as const, effort, async (contender) => {
      const queue = harness.open(contender, newQueueName())
      const jobs = inTurns(LINES, BATCH / LINES, 0)
      const bulk = (some: readonly KeyedJob[]): Promise<unknown> =>
        queue.addBulk(some.map((data) => ({ name: 'job', data })))
      await bulk(jobs.slice(0, 2 * LINES)) // The lines are busy now: each has a head and one more.
      const times: number[] = []
      for (let batch = 0; batch < BATCHES; batch++) {
        const startedAt = performance.now()
        await bulk(jobs)
        times.push(performance.now() - startedAt)
      }
      const startedAt = performance.now()
      for (let tick = 0; tick < TICKS; tick++) {
        const some = jobs.slice(tick * IN_A_TICK, (tick + 1) * IN_A_TICK)
        await Promise.all(some.map((data) => queue.add('job', data)))
      }
      const ticksMs = performance.now() - startedAt
      await queue.close()
      await harness.queueRedis.flushall()
      return { batchMs: median(times), ticksMs }
    })
    const batch = all.ratio('strict', 'plain', 'batchMs')
    const ticks = all.ratio('strict', 'plain', 'ticksMs')
    const inTicks = `${IN_A_TICK} adds in a tick, time of plain BullMQ`
    return {
      figures: [
        figure('addBulk, time of plain BullMQ', batch, 'x', { atMost: 1.2, aim: 0.85 }),
        figure(inTicks, ticks, 'x', { atMost: 1.5, aim: 1.3 }),
      ],
    }
  },
}

const FACADE = { lines: 500, each: 20, adds: 2_000, atMost: 1.03 }

/** What a sharded queue of one shard costs, beside the queue that it is. */
export const facade: Row = {
  name: 'facade',
  load: `one shard beside a LockedQueue: ${FACADE.adds} adds; ${FACADE.lines} lines × ${FACADE.each} jobs that do nothing, 1 process × 25`,
  async run(harness, effort) {
    const { lines, each, atMost } = FACADE
    const all = await takeTurns(['strict', 'sharded'] as const, effort, async (contender) => {
      const queue = harness.open(contender, newQueueName())
      await queue.waitUntilReady()
      const singles = inTurns(lines, 4, 0).slice(0, effort.of(FACADE.adds, 200))
      const startedAt = performance.now()
      for (const data of singles) await queue.add('job', data)
      const addMs = performance.now() - startedAt
      await queue.close()
      await harness.queueRedis.flushall()
      const load = { concurrency: 25, processes: 1, kept: false }
      const jobs = inTurns(effort.of(lines, 50), each, 0)
      const { makespanMs } = await harness.run(contender, { ...load, jobs })
      return { addMs, makespanMs }
    })
    const jobs = all.ratio('sharded', 'strict', 'makespanMs')
    const add = all.ratio('sharded', 'strict', 'addMs')
    return {
      figures: [
        figure('time of a LockedQueue, jobs', jobs, 'x', { atMost }),
        figure('time of a LockedQueue, one add', add, 'x', { atMost }),
      ],
    }
  },
}
