/** Jobs that are fetched and finished by hand, and BullMQ's locks on jobs. */
import { Redis } from 'ioredis'
import { differs, same, useSides } from './differential.ts'
import { fetched, pause } from './side.ts'

useSides()

differs(
  'getNextJob by hand: the customer’s next job comes when the first one is finished',
  async (side) => {
    await side.add('a', [1, 2])
    const worker = side.worker(() => undefined, { autorun: false })
    const first = await fetched(worker, 'one')
    const second = await fetched(worker, 'two', { block: false })
    await first?.moveToCompleted('by hand', 'one', false)
    const third = second ?? (await fetched(worker, 'three'))
    return { first: first?.data.nr, second: second?.data.nr, third: third?.data.nr }
  },
  {
    bullmq: { first: 1, second: 2, third: 2 },
    ours: { first: 1, second: undefined, third: 2 },
  },
)

differs(
  'getNextJob by hand: a job whose delay has ended waits for those of its customer',
  async (side) => {
    const worker = side.worker(() => undefined, { autorun: false })
    await side.add('a', [1])
    await side.add('a', [2], { delay: 1 })
    await side.add('a', [3])
    await pause(20)
    const fetches = async (token: string): Promise<number | undefined> =>
      (await fetched(worker, token, { block: false }))?.data.nr
    return { first: await fetches('one'), second: await fetches('two') }
  },
  { bullmq: { first: 1, second: 3 }, ours: { first: 1, second: undefined } },
)

same(
  'moveToCompleted by hand fetches the customer’s next job',
  async (side) => {
    await side.add('a', [1, 2])
    const worker = side.worker(() => undefined, { autorun: false })
    const job = await fetched(worker, 'one')
    const [data, id] = ((await job?.moveToCompleted('by hand', 'one', true)) ?? []) as [
      { readonly data?: string } | undefined,
      string | undefined,
    ]
    return { hasData: data !== undefined, id, state: await job?.getState() }
  },
  { hasData: true, id: '2', state: 'completed' },
)

same(
  'moveToFailed by hand, with attempts left and without',
  async (side) => {
    await side.add('a', [1], { attempts: 2 })
    const worker = side.worker(() => undefined, { autorun: false })
    const first = await fetched(worker, 'one')
    await first?.moveToFailed(new Error('on purpose'), 'one', false)
    const again = await first?.getState()
    const second = await fetched(worker, 'two')
    await second?.moveToFailed(new Error('on purpose'), 'two', false)
    return { again, last: await second?.getState(), made: second?.attemptsMade }
  },
  { again: 'waiting', last: 'failed', made: 2 },
)

differs(
  'a job that ends and asks for no other: the reply says nothing',
  async (side) => {
    const worker = side.worker(() => undefined, { autorun: false })
    await side.addTo(side.queue(), 'a', [1])
    const job = await fetched(worker, 'one')
    return { found: await job?.moveToCompleted('by hand', 'one', false) }
  },
  // As below.
  { bullmq: { found: [] }, ours: { found: undefined } },
)

differs(
  'a job that is tried again later: without a next job the reply says nothing',
  async (side) => {
    const worker = side.worker(() => undefined, { autorun: false })
    await side.add('a', [1], { attempts: 2, backoff: 90_000 })
    const job = await fetched(worker, 'one')
    return { found: await job?.moveToFailed(new Error('no'), 'one', true) }
  },
  // BullMQ's worker takes it for news: no delay and no rate. It looks again after its `drainDelay`.
  { bullmq: { found: [] }, ours: { found: undefined } },
)

same(
  'getNextJob of a plain Worker and moveToCompleted: a worker runs the customer’s next job',
  async (side) => {
    await side.addTo(side.queue(), 'a', [1, 2, 3])
    const job = await fetched(side.plainWorker(), 'one')
    await job?.moveToCompleted('by hand', 'one', false)
    side.worker()
    await side.ended(2)
    return { nr: job?.data.nr, state: await job?.getState(), order: side.order }
  },
  { nr: 1, state: 'completed', order: [2, 3] },
)

same(
  'extendLock and extendJobLocks with job.token',
  async (side) => {
    const found: unknown[] = []
    const worker = side.worker(async (job, { token }) => {
      found.push(await job.extendLock(token, 5_000))
      found.push(await worker.extendJobLocks([job.id ?? ''], [token], 5_000))
    })
    await side.add('a', [1])
    await side.ended(1)
    return { found }
  },
  { found: [1, []] },
)

same(
  'locksRenewed is emitted while a job runs',
  async (side) => {
    const gate = side.gate()
    const counts: number[] = []
    side
      .worker(() => gate.passed, { lockDuration: 400, lockRenewTime: 60 })
      .on('locksRenewed', ({ count }) => {
        counts.push(count)
        gate.open()
      })
    await side.add('a', [1])
    await side.ended(1)
    return { first: counts[0] }
  },
  { first: 1 },
)

differs(
  'processJob of a job that was fetched by hand: the processor runs under a lease',
  async (side) => {
    await side.add('a', [1, 2])
    const found: unknown[] = []
    const worker = side.worker(
      async () => {
        if (!side.isOurs) return
        const resource = side.resourceOf('a')
        found.push((await side.redlock.tryAcquire(resource)).status)
      },
      { autorun: false },
    )
    const job = await fetched(worker, 'one')
    if (job !== undefined) await worker.processJob(job, 'one', () => false)
    return { state: await job?.getState(), order: side.order, found }
  },
  {
    bullmq: { state: 'completed', order: [1], found: [] },
    ours: { state: 'completed', order: [1], found: ['taken'] },
  },
)

differs(
  'lockRenewalFailed: the signal aborts when BullMQ’s lock on the job is lost',
  async (side) => {
    const found: unknown[] = []
    const redis = new Redis(side.connection)
    side.defer(() => redis.quit())
    let failed: string[] = []
    side
      .worker(
        async (job, { signal }) => {
          await redis.del(side.own.toKey(`${job.id ?? ''}:lock`))
          await side.until('the renewal fails', () => failed.length > 0)
          await pause(20)
          found.push(signal.aborted)
        },
        { lockDuration: 2_000, lockRenewTime: 80, skipStalledCheck: true },
      )
      .on('lockRenewalFailed', (ids) => {
        failed = ids
      })
    const [job] = await side.add('a', [1])
    await side.ended(1)
    return { failed: failed.map((id) => id === job?.id), found }
  },
  { bullmq: { failed: [true], found: [false] }, ours: { failed: [true], found: [true] } },
)

same(
  'startStalledCheckTimer by hand finds a job whose worker died',
  async (side) => {
    const [gate, redlock] = [side.gate(), await side.ownRedlock()]
    const dead = side.worker(() => gate.passed, {
      lockDuration: 200,
      skipStalledCheck: true,
      ours: { redlock },
    })
    const [job] = await side.add('a', [1])
    await side.started(1)
    await dead.close(true)
    await redlock.close()
    const worker = side.worker(() => undefined, { autorun: false, stalledInterval: 100 })
    await worker.startStalledCheckTimer()
    await side.until('it waits again', async () => (await job?.getState()) === 'waiting')
    void worker.run()
    await side.started(1)
    return { order: side.order.slice(0, 1) }
  },
  { order: [1] },
)

same(
  'getNextJob by hand of a job of a scheduler: the next one is added',
  async (side) => {
    const queue = side.queue()
    await queue.upsertJobScheduler('s', { every: 3_600_000 }, { data: { customer: 'a', nr: 1 } })
    const worker = side.worker(() => undefined, { autorun: false })
    const job = await fetched(worker, 'one')
    const [scheduler] = await queue.getJobSchedulers()
    await job?.moveToCompleted('by hand', 'one', false)
    return { iterations: scheduler?.iterationCount, next: await queue.getDelayedCount() }
  },
  { iterations: 2, next: 1 },
)
