/** A worker that is told to stop: when the jobs that it gives back start in another process. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { median } from '../../statistics.ts'
import { newQueueName } from '../harness.ts'
import type { KeyedJob, Sighting } from '../job.ts'
import { none, speed, type Row } from '../row.ts'
import type { WorkerProcess } from '../worker-processes.ts'

const STOPS = 30
const SMOKE_STOPS = 2
const LINES = 4
const START_LIMIT_MS = 30_000
/** The other worker waits for a job by then. */
const SETTLE_MS = 200

export const drain: Row = {
  name: 'drain',
  load: `stop of a worker whose ${LINES} jobs run on, ${STOPS} times; 2 processes`,
  async run(harness, { smoke }) {
    const queue = newQueueName()
    const orders = { ...harness.orders('strict', queue, LINES), announce: true, quiet: true }
    let [running, other] = harness.processes.all
    if (running === undefined || other === undefined) throw new Error('Expected two processes')
    const jobs = Array.from({ length: LINES }, (_, line): KeyedJob => ({
      key: `${queue}-${line}`,
      nr: 0,
      workMs: 0,
      held: true,
    }))
    await running.work(orders)
    const allRun = starts(running)
    await harness.add('strict', queue, jobs)
    await allRun
    const waits: number[] = []
    for (let stop = 0; stop < (smoke ? SMOKE_STOPS : STOPS); stop++) {
      await other.work(orders)
      await delay(SETTLE_MS)
      const elsewhere = starts(other)
      const stoppedAt = monotonicMs()
      const stopped = running.stop({ drains: true })
      waits.push(...(await elsewhere).map(({ at }) => at - stoppedAt))
      await stopped
      ;[running, other] = [other, running]
    }
    running.release()
    const { runs } = await running.stop()
    await harness.queueRedis.flushall()
    return [
      none('jobs lost', jobs.length - runs.length),
      speed('start elsewhere, slowest job of all stops', Math.max(...waits), 'ms', {
        ...{ must: { atMost: 1_000 }, aim: { atMost: 300 } },
        note: `median ${Math.round(median(waits))} ms`,
      }),
    ]
  },
}

/** The next start of each line in a process. */
function starts(worker: WorkerProcess): Promise<readonly Sighting[]> {
  const lines = Array.from({ length: LINES }, (_, line) =>
    worker.next('entered', START_LIMIT_MS, ({ key }) => key.endsWith(`-${line}`)),
  )
  return Promise.all(lines)
}
