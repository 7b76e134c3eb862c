/** Workers that are killed under load: what becomes of the lines meanwhile. */
import { setTimeout as delay } from 'node:timers/promises'
import { Queue } from 'bullmq'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { BusyLines } from '../busy-lines.ts'
import { judgeLines, type Event } from '../judge.ts'
import { LEASE_MS, newQueueName } from '../harness.ts'
import { sum } from '../../statistics.ts'
import { none, reference, speed, type Row } from '../row.ts'
import { WorkerProcess } from '../worker-processes.ts'

const PROCESSES = 3
const SMOKE_PROCESSES = 2
const CONCURRENCY = 8
const LINES = 30
const WORK_MS = 50
/** How many jobs of each line are there at any time. */
const DEPTH = 20
const SMOKE_DEPTH = 8
const TOP_UP_MS = 50
const KILLS = 10
const BETWEEN_MS = { min: 700, max: 1_300 }
const END_LIMIT_MS = 60_000
const POLL_MS = 50

export const killedWorkers: Row = {
  name: 'killed-workers',
  load: `kill -9 of a worker, ${KILLS} times; ${LINES} lines × ${WORK_MS} ms, ${PROCESSES} × ${CONCURRENCY}`,
  async run(harness, { smoke }) {
    const queue = newQueueName()
    const orders = { ...harness.orders('strict', queue, CONCURRENCY), announce: true, quiet: true }
    const plain = new Queue(queue, { connection: orders.connection })
    const producer = await harness.producer('strict', queue)
    const lines = new BusyLines(queue, {
      ...{ lines: smoke ? LINES / 3 : LINES, depth: smoke ? SMOKE_DEPTH : DEPTH },
      ...{ workMs: WORK_MS, everyMs: TOP_UP_MS },
    })
    const events: Event[] = []
    let started = 0
    const start = async (): Promise<{ process: number; worker: WorkerProcess }> => {
      const process = started++
      const worker = await WorkerProcess.start()
      worker.listen((report) => {
        if (report.report !== 'entered' && report.report !== 'left') return
        events.push({ ...report, process })
        if (report.report === 'left') lines.left(report.key, report.nr)
      })
      return { process, worker }
    }
    const size = smoke ? SMOKE_PROCESSES : PROCESSES
    /** The oldest first. */
    const workers = await Promise.all(Array.from({ length: size }, start))
    await Promise.all(workers.map(({ worker }) => worker.work(orders)))
    const endAdding = await lines.keepFull(producer)
    for (let nr = 0; nr < (smoke ? 1 : KILLS); nr++) {
      await delay(BETWEEN_MS.min + Math.random() * (BETWEEN_MS.max - BETWEEN_MS.min))
      const next = await start()
      workers.push(next)
      const oldest = workers.shift()
      const at = monotonicMs()
      await oldest?.worker.kill()
      if (oldest !== undefined) events.push({ report: 'died', process: oldest.process, at })
      await next.worker.work(orders)
    }
    await endAdding()
    const limit = monotonicMs() + END_LIMIT_MS
    const remaining = async (): Promise<number> => lines.added - (await plain.getCompletedCount())
    while ((await remaining()) > 0 && monotonicMs() < limit) await delay(POLL_MS)
    const lost = await remaining()
    const tallies = await Promise.all(workers.map(({ worker }) => worker.stop()))
    await Promise.all(workers.map(({ worker }) => worker.leave()))
    await producer.close()
    await plain.close()
    await harness.queueRedis.flushall()
    const { outOfOrder, overlaps, repeated, longestStandstillMs } = judgeLines(events)
    return [
      none('jobs lost', lost),
      none('starts out of order', outOfOrder),
      none('two jobs of a line at once', overlaps),
      speed('longest standstill of a line with jobs', longestStandstillMs, 'ms', {
        must: { atMost: LEASE_MS + 2_000 },
      }),
      reference('jobs', lines.added),
      reference('jobs that started again', repeated),
      reference('starts in vain', sum(tallies.map(({ wasted }) => wasted))),
    ]
  },
}
