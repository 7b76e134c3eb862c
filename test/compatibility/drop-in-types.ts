/**
 * Ways to write a queue and a worker, as for BullMQ: they compile with our classes under its names.
 * `npm run typecheck` is the test; nothing here runs. `line` and `lock` are what is written in
 * addition.
 */
/* eslint-disable @typescript-eslint/no-explicit-any, @typescript-eslint/no-unsafe-assignment,
   @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-return,
   @typescript-eslint/require-await -- code as people write it for BullMQ */
import * as bullmq from 'bullmq'
import { LockedQueue as Queue, LockedWorker as Worker, type Redlock } from '../../src/index.ts'

declare const connection: { readonly host: string; readonly port: number }
declare const line: { readonly resource: (data: any) => string }
declare const lock: { readonly redlock: Redlock; readonly resource: (job: any) => string }
declare const queueOptions: typeof line & { readonly connection: typeof connection }
declare const workerOptions: typeof lock & { readonly connection: typeof connection }

interface Data {
  readonly customer: string
  readonly cents: number
}

/** Names a way of writing, as a row of the compatibility page does. */
const compiles: (title: string, code: () => unknown) => void = () => undefined

compiles('types: a queue and a worker of any data', async () => {
  const queue = new Queue('x', queueOptions)
  const job = await queue.add('charge', { customer: 'a', more: [1] })
  const customer: string = job.data.customer
  return new Worker('x', async (job) => [customer, job.data.whatever.deep], workerOptions)
})

compiles('types: a queue and a worker of typed data', async () => {
  const queue = new Queue<Data>('x', queueOptions)
  await queue.add('charge', { customer: 'a', cents: 1 })
  return new Worker<Data>('x', async (job) => void job.data.cents.toFixed(), workerOptions)
})

compiles('types: data, result and name', async () => {
  type Name = 'charge' | 'refund'
  const queue = new Queue<Data, number, Name>('x', queueOptions)
  const job = await queue.add('refund', { customer: 'a', cents: 1 })
  const result: number = job.returnvalue
  return new Worker<Data, number, Name>('x', async (job) => job.name.length + result, workerOptions)
})

compiles('types: addBulk and schedulers', async () => {
  const queue = new Queue<Data>('x', queueOptions)
  const data: Data = { customer: 'a', cents: 1 }
  await queue.addBulk([
    { name: 'a', data, opts: { attempts: 3 } },
    { name: 'b', data },
  ])
  await queue.upsertJobScheduler('s', { every: 1_000 }, { name: 'a', data })
})

compiles('types: listeners', () => {
  const worker = new Worker<Data, number>('x', async () => 1, workerOptions)
  worker.on('completed', (job, result) => job.data.cents.toFixed(result))
  worker.on('failed', (job, error, prev) => [job?.data.cents.toFixed(), error.message + prev])
  worker.once('ready', () => undefined).off('ready', () => undefined)
  new Queue<Data>('x', queueOptions).on('waiting', (job) => job.data.cents.toFixed())
})

compiles('types: a variable of BullMQ’s type', async () => {
  const queue: bullmq.Queue<Data> = new Queue<Data>('x', queueOptions)
  const worker: bullmq.Worker<Data> = new Worker<Data>('x', async () => 1, workerOptions)
  const jobs: bullmq.Job<Data>[] = await queue.getWaiting()
  return [worker, jobs]
})

compiles('types: a class of the caller', () => {
  class Charges extends Queue<Data> {
    charge(data: Data) {
      return this.add('charge', data)
    }
  }
  class Charger extends Worker<Data, number> {
    constructor() {
      super('x', async (job) => job.data.cents, workerOptions)
    }
  }
  return [Charges, Charger]
})

compiles('types: a function of the job as BullMQ’s Processor', () => {
  const process: bullmq.Processor<Data, number> = async (job) => job.data.cents
  return new Worker<Data, number>('x', process, workerOptions)
})

compiles('types: a Processor of job, token and signal', () => {
  const process: bullmq.Processor = async (job, token, signal) => {
    await job.moveToDelayed(Date.now() + 1_000, token)
    if (signal?.aborted) throw new bullmq.DelayedError()
  }
  return new Worker('x', process, workerOptions)
})

compiles(
  'types: the second parameter as the token',
  () => new Worker('x', async (job, token) => job.extendLock(token, 1_000), workerOptions),
)

compiles('types: BullMQ’s options in a variable', () => {
  const limiter = { max: 1, duration: 1 }
  const options: bullmq.WorkerOptions = { connection, concurrency: 5, limiter }
  const queued: bullmq.QueueOptions = { connection, prefix: 'p' }
  return [
    new Worker('x', async () => 1, { ...options, ...lock }),
    new Queue('x', { ...queued, ...line }),
  ]
})
