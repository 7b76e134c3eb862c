/**
 * What has to work with every BullMQ version in range, in a process that has only that one. Prints
 * what it found.
 */
import * as bullmq from 'bullmq'
import { Queue } from 'bullmq'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from '../../src/index.ts'

export interface VersionSetup {
  /**
   * `refusal`, `backend`: only try to make a queue and a worker, the latter with another default
   * backend.
   */
  readonly task: 'scenario' | 'refusal' | 'backend'
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly maxLeaseMs: number
  readonly queueName: string
}

export interface VersionFacts {
  readonly orders: Readonly<Record<string, readonly number[]>>
  readonly overlaps: number
  /** What ran after ten jobs behind the running one were taken out, and one was added. */
  readonly drained: readonly number[]
  readonly removed: readonly number[]
  readonly cleaned: readonly number[]
  readonly obliterated: readonly number[]
  readonly counts: Readonly<Record<string, number>>
  /** In which order jobs of a resource with a rate ran, and whether that took the time it must. */
  readonly limited: { readonly order: readonly number[]; readonly isHeld: boolean }
  /** What became of a job of a paused resource, and what it failed with. */
  readonly cancelled: readonly [outcome: string | undefined, reason: string | undefined]
}

interface Work {
  readonly customer: string
  readonly nr: number
}

/** Ten places that hold up a line cost more than that. */
const SOON_MS = 30_000
const CUSTOMERS = ['a', 'b', 'c', 'd']

const { task, connection, masters, namespace, maxLeaseMs, queueName } = JSON.parse(
  process.argv[2] ?? '',
) as VersionSetup
const redlock = new Redlock({
  masters,
  namespace,
  leaseMs: maxLeaseMs,
  maxLeaseMs,
  masterTimeoutMs: 1_000,
  logger: silentLogger,
})
const resource = ({ customer }: Work): string => `${queueName}:${customer}`
const newQueue = (): LockedQueue<Work> => new LockedQueue<Work>(queueName, { connection, resource })
const newWorker = (process: (work: Work) => Promise<void>): LockedWorker<Work> =>
  new LockedWorker<Work>(queueName, ({ data }) => process(data), {
    connection,
    redlock,
    resource: ({ data }) => resource(data),
    concurrency: 4,
    logger: silentLogger,
  })

const print = (found: unknown): void => {
  process.stdout.write(`${JSON.stringify(found)}\n`)
}
const refusalOf = (make: () => unknown): string => {
  try {
    make()
    return 'accepted'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

if (task === 'backend') bullmq.setDefaultBackendFactory(bullmq.createPostgresBackend)
if (task !== 'scenario') {
  print({ queue: refusalOf(newQueue), worker: refusalOf(() => newWorker(() => Promise.resolve())) })
  process.exit(0)
}

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + SOON_MS
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`gave up waiting until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

const queue = newQueue()
const started: Work[] = []
const ended = new Set<number>()
const running = new Set<string>()
let overlaps = 0
let gate: Promise<void> = Promise.resolve()
const worker = newWorker(async (work) => {
  if (running.has(work.customer)) overlaps++
  running.add(work.customer)
  started.push(work)
  await gate
  running.delete(work.customer)
  ended.add(work.nr)
})
worker.on('error', () => undefined)
const add = (customer: string, nr: number): Promise<unknown> => queue.add('work', { customer, nr })

// Twenty jobs of four customers, the second half in bulk.
for (let nr = 0; nr < 10; nr++) await add(CUSTOMERS[nr % 4] ?? '', nr)
await queue.addBulk(
  Array.from({ length: 10 }, (_, index) => ({
    name: 'work',
    data: { customer: CUSTOMERS[(index + 10) % 4] ?? '', nr: index + 10 },
  })),
)
await until('all twenty have ended', () => ended.size === 20)
const orders = Object.fromEntries(
  CUSTOMERS.map((customer) => [
    customer,
    started.filter((one) => one.customer === customer).map(({ nr }) => nr),
  ]),
)

/** What runs when ten jobs behind the running one are taken out, and another one is added. */
async function without(
  first: number,
  takeOut: (ids: readonly string[]) => Promise<unknown>,
): Promise<readonly number[]> {
  let open = (): void => undefined
  gate = new Promise((resolve) => {
    open = resolve
  })
  const before = started.length
  await add('a', first)
  await until(`${first} runs`, () => started.some(({ nr }) => nr === first))
  const jobs = []
  for (let nr = first + 1; nr <= first + 10; nr++) {
    jobs.push(await queue.add('work', { customer: 'a', nr }))
  }
  await takeOut(jobs.map(({ id }) => id ?? ''))
  await add('a', first + 11)
  open()
  await until(`${first + 11} has ended`, () => ended.has(first + 11))
  return started.slice(before).map(({ nr }) => nr - first)
}

const drained = await without(100, () => queue.drain())
const removed = await without(200, (ids) => Promise.all(ids.map((id) => queue.remove(id))))
const cleaned = await without(300, () => queue.clean(0, 100, 'wait'))
await until('nothing is active', async () => (await queue.getActiveCount()) === 0)
gate = Promise.resolve()
await worker.pause()
for (let nr = 400; nr < 405; nr++) await add('a', nr)
await queue.obliterate({ force: true })
await queue.add('work', { customer: 'b', nr: 410 }, { delay: 3_600_000 })
await add('a', 411)
const before = started.length
await worker.resume()
await until('the job after obliterate has ended', () => ended.has(411))
const obliterated = started.slice(before).map(({ nr }) => nr - 400)
await until('nothing is active', async () => (await queue.getActiveCount()) === 0)

const plain = new Queue(queueName, { connection })
const counts = await plain.getJobCounts('waiting', 'active', 'delayed', 'failed')

// BullMQ itself takes a held job when its time has come.
await queue.setRate(resource({ customer: 'c', nr: 0 }), { limit: 5, perMs: 1_000 })
const limitedAt = performance.now()
for (let nr = 500; nr < 503; nr++) await add('c', nr)
await until('the limited jobs have ended', () => ended.has(502))
const isHeld = performance.now() - limitedAt >= 390
const limited = { order: started.slice(-3).map(({ nr }) => nr - 500), isHeld }
await queue.pauseResource(resource({ customer: 'd', nr: 0 }))
const paused = await queue.add('work', { customer: 'd', nr: 600 })
const answers = await queue.cancel(paused.id ?? '', { reason: 'test' })
const failed = await queue.getJob(paused.id ?? '')
const why = failed?.failedReason.replace(/^Job \d+/, 'It')
const cancelled = [answers[0]?.outcome, why] as const
const sofar = { orders, overlaps, drained, removed, cleaned, obliterated, counts }
const facts: VersionFacts = { ...sofar, limited, cancelled }
print(facts)
await plain.close()
await worker.close()
await queue.close()
await redlock.close()
