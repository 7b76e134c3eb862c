/** Producers that die in the middle of `add` and `addBulk`: what they left must run, and once. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Queue } from 'bullmq'
import { sum } from '../../statistics.ts'
import type { ProducerOrders } from '../job.ts'
import { newQueueName, type Harness } from '../harness.ts'
import { none, reference, speed, type Row } from '../row.ts'
import { CONCURRENCY } from './rounds.ts'

const KILLS = 300
const SMOKE_KILLS = 4
/** Few enough that most jobs are added to a line that is busy. */
const LINES = 4
const BULK = 10
/** Every job that exists must be done within this time after its producer died. */
const LIMIT_MS = 3_000
const POLL_MS = 20
/** Producers that are started and wait for their turn. */
const READY = 3
const ALIVE_MS = { min: 2, max: 120 }
const JOBS_PER_PRODUCER = 1_000_000
const UNFINISHED = ['waiting', 'prioritized', 'delayed', 'active'] as const

export const killedProducers: Row = {
  name: 'killed-producers',
  load: `kill -9 of a producer in add and addBulk of ${BULK}, ${KILLS} times; ${LINES} lines`,
  async run(harness, { smoke }) {
    const name = newQueueName()
    const plain = new Queue(name, { connection: harness.orders('plain', name, 1).connection })
    await harness.processes.work(harness.orders('strict', name, CONCURRENCY))
    const late = new Set<string>()
    let longestMs = 0
    const kills = smoke ? SMOKE_KILLS : KILLS
    const ready: Promise<ChildProcess>[] = []
    for (let nr = 0; nr < kills; nr++) {
      while (ready.length < READY && nr + ready.length < kills) {
        ready.push(startProducer(harness, name, nr + ready.length))
      }
      const producer = await ready.shift()
      if (producer === undefined) break
      await killWhileAdding(producer)
      longestMs = Math.max(longestMs, await allDone(plain, late))
    }
    const counts = await plain.getJobCounts('completed', 'failed', ...UNFINISHED)
    const { runs } = await harness.stop()
    await plain.close()
    const distinct = new Set(runs.map(({ key, nr }) => `${key}#${nr}`)).size
    return [
      none(`jobs not done ${LIMIT_MS / 1_000} s after their producer died`, late.size),
      none('jobs that ran twice', runs.length - distinct),
      none('jobs that failed', counts['failed'] ?? 0),
      speed(
        'until all jobs of a dead producer were done, longest',
        late.size > 0 ? Infinity : longestMs,
        'ms',
        { must: { atMost: LIMIT_MS } },
      ),
      reference('producers killed', kills),
      reference('jobs that they added', sum(Object.values(counts))),
    ]
  },
}

async function startProducer(harness: Harness, queue: string, nr: number): Promise<ChildProcess> {
  const { connection, namespace } = harness.orders('strict', queue, 1)
  const orders: ProducerOrders = {
    contender: 'strict',
    queue,
    connection,
    namespace,
    keys: Array.from({ length: LINES }, (_, index) => `${queue}-line-${index}`),
    firstNr: nr * JOBS_PER_PRODUCER,
    atOnce: nr % 2 === 0 ? 1 : BULK,
  }
  const child = fork(new URL('../producer-child.ts', import.meta.url), [JSON.stringify(orders)], {
    execArgv: ['--import', import.meta.resolve('tsx')],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  await once(child, 'message')
  return child
}

async function killWhileAdding(producer: ChildProcess): Promise<void> {
  const exited = once(producer, 'exit')
  producer.send('go')
  await delay(ALIVE_MS.min + Math.random() * (ALIVE_MS.max - ALIVE_MS.min))
  producer.kill('SIGKILL')
  await exited
}

/** How long it takes until every job is done. Notes those that are not done in time. */
async function allDone(queue: Queue, late: Set<string>): Promise<number> {
  const startedAt = performance.now()
  while (performance.now() - startedAt < LIMIT_MS) {
    const unfinished = sum(Object.values(await queue.getJobCounts(...UNFINISHED)))
    // A job that was late once does not count again.
    if (unfinished <= late.size) return performance.now() - startedAt
    await delay(POLL_MS)
  }
  for (const { id } of await queue.getJobs([...UNFINISHED])) if (id !== undefined) late.add(id)
  return LIMIT_MS
}
