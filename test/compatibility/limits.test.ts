/** How many jobs run at once, and how many in a time. */
import { same, sameAndAsSoon, useSides } from './differential.ts'
import { pause, range } from './side.ts'

useSides()

same(
  'concurrency can be changed at run time',
  async (side) => {
    let [now, most] = [0, 0]
    const worker = side.worker(
      async () => {
        most = Math.max(most, ++now)
        await pause(40)
        now--
      },
      { concurrency: 1 },
    )
    for (const nr of range(1, 16)) await side.add(`c${nr}`, [nr])
    await side.ended(2)
    const alone = most
    worker.concurrency = 3
    await side.ended(16)
    return { alone, most, concurrency: worker.concurrency }
  },
  { alone: 1, most: 3, concurrency: 3 },
)

same(
  'setGlobalConcurrency bounds all workers, and isMaxed says so',
  async (side) => {
    const queue = side.queue()
    await queue.setGlobalConcurrency(2)
    let [now, most] = [0, 0]
    const gate = side.gate()
    const process = async (): Promise<void> => {
      most = Math.max(most, ++now)
      await gate.passed
      await pause(10)
      now--
    }
    for (const concurrency of [3, 3]) side.worker(process, { concurrency })
    for (const nr of range(1, 6)) await side.addTo(queue, `c${nr}`, [nr])
    await side.until('two run', () => now === 2)
    await pause(100)
    const maxed = await queue.isMaxed()
    gate.open()
    await side.ended(6)
    const known = await queue.getGlobalConcurrency()
    await queue.removeGlobalConcurrency()
    return { most, maxed, known, after: await queue.getGlobalConcurrency() }
  },
  { most: 2, maxed: true, known: 2, after: null },
)

same(
  'global concurrency of one and two customers: every job runs, in order',
  async (side) => {
    await side.own.setGlobalConcurrency(1)
    await side.add('a', range(1, 4))
    await side.add('b', range(5, 8))
    side.worker(() => pause(2))
    await side.ended(8)
    return { a: side.orderOf('a'), b: side.orderOf('b') }
  },
  { a: range(1, 4), b: range(5, 8) },
)

sameAndAsSoon(
  'setGlobalRateLimit bounds the queue, and removeGlobalRateLimit lifts it',
  async (side) => {
    const queue = side.queue()
    await queue.setGlobalRateLimit(2, 300)
    await side.addTo(queue, 'a', range(1, 6))
    const from = performance.now()
    side.worker()
    await side.ended(6)
    const gapMs = performance.now() - from
    const limit = await queue.getGlobalRateLimit()
    await queue.removeGlobalRateLimit()
    return { order: side.order, limit, after: await queue.getGlobalRateLimit(), gapMs }
  },
  { order: range(1, 6), limit: { max: 2, duration: 300 }, after: null },
)

same(
  'queue.rateLimit, getRateLimitTtl and removeRateLimitKey',
  async (side) => {
    const queue = side.queue()
    await queue.rateLimit(60_000)
    const limited = (await queue.getRateLimitTtl()) > 0
    await side.addTo(queue, 'a', [1])
    const worker = side.worker(() => undefined, { limiter: { max: 5, duration: 1_000 } })
    await worker.waitUntilReady()
    await pause(150)
    const before = side.order
    await queue.removeRateLimitKey()
    return { limited, before, after: await queue.getRateLimitTtl() }
  },
  { limited: true, before: [], after: -2 },
)
