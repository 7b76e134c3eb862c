/**
 * A worker process that kills itself (SIGKILL) at a given point of the second job's first run, or
 * stays there in a step, or stops itself (SIGSTOP) before it. It says over IPC when it takes jobs,
 * and when a job enters its step.
 */
import type { Job } from 'bullmq'
import { Redis } from 'ioredis'
import { LockedWorker, Redlock } from '../../src/index.ts'

/** In the order in which a job gets there. */
export type Point =
  'frozen' | 'acquiring' | 'in a step' | 'extending' | 'released' | 'completed' | 'never'

export interface Entered {
  readonly entered: number
  readonly fencingToken: number
}

export interface DyingSetup {
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly point: Point
}

/** What has been sent by then has left. */
const FLUSH_MS = 20

const setup = JSON.parse(process.argv[2] ?? '') as DyingSetup
const { queue, connection, masters, namespace, leaseMs, maxLeaseMs, point } = setup
const die = (): void => {
  process.kill(process.pid, 'SIGKILL')
}
const dieSoon = (): void => void setTimeout(die, FLUSH_MS)

const redlock = new Redlock({ masters, namespace, leaseMs, maxLeaseMs })
const log = new Redis({ ...connection, maxRetriesPerRequest: null })

const isMine = (job: Job<{ nr: number }>): boolean => job.data.nr === 2
if (point === 'acquiring' || point === 'frozen') {
  // The second job comes by its lease in one of two ways.
  const tryAcquire = redlock.tryAcquire.bind(redlock)
  const handOver = redlock.handOver.bind(redlock)
  let calls = 0
  const count = (): void => {
    if (++calls !== 2) return
    if (point === 'frozen') process.kill(process.pid, 'SIGSTOP')
    else setImmediate(() => setImmediate(die))
  }
  redlock.tryAcquire = (...args) => (count(), tryAcquire(...args))
  redlock.handOver = (...args) => (count(), handOver(...args))
}

function trap(job: Job<{ nr: number }>): void {
  const moveToCompleted = job.moveToCompleted.bind(job)
  if (point === 'released') {
    job.moveToCompleted = () => (dieSoon(), new Promise(() => undefined))
  } else if (point === 'completed') {
    job.moveToCompleted = async (...args) => {
      await moveToCompleted(...args)
      die()
    }
  }
}

const worker = new LockedWorker<{ nr: number }>(
  queue,
  async (job, lease) => {
    await log.rpush(`${queue}:starts`, job.data.nr)
    if (isMine(job)) trap(job)
    await lease.step('one', async () => {
      process.send?.({ entered: job.data.nr, fencingToken: lease.fencingToken })
      if (isMine(job) && point === 'in a step') await new Promise(() => undefined)
    })
    if (isMine(job) && point === 'extending') setImmediate(() => setImmediate(die))
    await lease.step('two', () => undefined)
  },
  { connection, redlock, resource: () => queue, concurrency: 2 },
)
worker.on('error', (error) => {
  console.error(error)
})
await worker.waitUntilReady()
process.send?.('ready')
process.once('SIGTERM', () => {
  void worker
    .close()
    .then(() => redlock.close())
    .then(() => {
      log.disconnect()
      process.disconnect()
    })
})
