import { FlowProducer, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { world, pause, until } from './lib.ts'
import { lockedProcessor, silentLogger } from '../src/index.ts'
const w = await world()
const redis = new Redis(w.fleet.queue.url)
const realNow = Date.now
let ahead = 0
Date.now = () => realNow.call(Date) + ahead
const probe = async (name: string, f: () => Promise<unknown>) => {
  if (process.argv[2] && !name.startsWith(process.argv[2])) return
  try { console.log(name, '→', JSON.stringify(await f())) } catch (e) { console.log(name, 'THREW', (e as Error).message) } finally { ahead = 0 }
}
await probe('B10 parent delay, worker 5 s ahead', async () => {
  const out: any = {}
  for (const a of [5000, -5000]) {
    const n = w.name(); const q = w.queue(n)
    const flow = new FlowProducer({ connection: w.connection })
    const wk = w.worker(n, async () => {})
    await wk.waitUntilReady()
    ahead = a
    const t = await flow.add({ name: 'p', queueName: n, data: { r: 'a' }, opts: { delay: 1000 }, children: [{ name: 'c', queueName: n, data: { r: 'b' } }] })
    const at = performance.now()
    await pause(300)
    const score = await redis.zscore(`bull:${n}:delayed`, t.job.id!)
    const [s, u] = await redis.time()
    out[a] = score && Math.round(Number(score) / 4096 - (Number(s) * 1000 + Number(u) / 1000))
    ahead = 0; await flow.close(); await wk.close()
  }
  return out
})
await probe('B15 maxWaitMs, producer 1 h behind, resource held elsewhere', async () => {
  const n = w.name(); const q = w.queue(n, { maxWaitMs: 3000 })
  const lease = await w.redlock.acquire(n + 'a', { autoExtend: true } as any)
  const wk = w.worker(n, async () => {}, { maxWaitMs: 3000 })
  ahead = -3600000
  const job = await q.add('x', { r: 'a' }); ahead = 0
  const t = performance.now(); await pause(1200)
  const st = await job.getState(); const f = (await q.getJob(job.id!))?.failedReason
  await lease.release()
  return { st, f }
})
await probe('B15b parent that waited for children 2 s, maxWaitMs 1 s, resource held elsewhere', async () => {
  const n = w.name(); const q = w.queue(n, { maxWaitMs: 1000 })
  const lease = await w.redlock.acquire(n + 'a', { autoExtend: true } as any)
  const flow = new FlowProducer({ connection: w.connection })
  const wk = w.worker(n, async () => { await pause(1500) }, { maxWaitMs: 1000 })
  const t = await flow.add({ name: 'p', queueName: n, data: { r: 'a' }, children: [{ name: 'c', queueName: n, data: { r: 'b' } }] })
  await until('child done', async () => (await q.getCompletedCount()) === 1)
  await pause(400)
  console.log((await q.getFailed()).map((j: any) => [j.name, j.failedReason]), await redis.hgetall(`bull:${n}:${t.job.id}`))
  const st = await t.job.getState(); const f = (await q.getJob(t.job.id!))?.failedReason
  await lease.release(); await flow.close()
  return { st, f }
})
await probe('B1 getLimits, client 1 h ahead', async () => {
  const n = w.name(); const q = w.queue(n)
  await q.pauseResource('z', { until: Date.now() + 60000 })
  ahead = 3600000
  const r = await q.getLimits('z'); ahead = 0
  return r
})
await probe('B1b pause until, client 1 h behind', async () => {
  const n = w.name(); const q = w.queue(n)
  ahead = -3600000
  const e = await q.pauseResource(n + 'z', { until: Date.now() + 60000 }).catch(String); 
  const r = await q.getLimits(n + 'z'); ahead = 0
  return { e, r, r2: await q.getLimits(n + 'z') }
})
await probe('D4 scheduler on lockedProcessor in a plain worker', async () => {
  const run = async (ours: boolean) => {
    const n = w.name(); const q = new Queue(n, { connection: w.connection }); w.closers.push(() => q.close())
    const body = async () => { await pause(400) }
    const p: any = ours ? lockedProcessor(w.redlock, { resource: () => n + 'a', logger: silentLogger }, body) : body
    const wk = new Worker(n, p, { connection: w.connection, concurrency: 2 }); w.closers.push(() => wk.close(true))
    await q.upsertJobScheduler('s', { every: 50 }, { name: 't', data: {} })
    const seen: number[] = []
    for (let i = 0; i < 5; i++) { await pause(800); const c = await q.getJobCounts('waiting', 'active', 'delayed'); seen.push(c.waiting + c.active + c.delayed) }
    await q.removeJobScheduler('s'); await wk.close(true)
    return seen
  }
  return { plain: await run(false), ours: await run(true) }
})
await probe('E8 batch that never returns, maxHoldMs', async () => {
  const { batchProcessor } = await import('../src/index.ts')
  const n = w.name(); const q = w.queue(n)
  const rl = await w.mk({ leaseMs: 500 })
  let never = true
  const wk = w.worker(n, batchProcessor({ size: 3 }, async (jobs) => { if (never) { never = false; await new Promise(() => {}) } return Promise.allSettled(jobs.map(async () => 1)) }), { redlock: rl, maxHoldMs: 800 })
  await q.addBulk([1, 2, 3, 4].map(() => ({ name: 'x', data: { r: 'a' } })))
  await until('4th done', async () => (await q.getCompletedCount()) >= 1, 8000)
  const c = await q.getJobCounts(); wk.close(true).catch(() => 0)
  return c
})
await probe('E4 drain while starting', async () => {
  const { Redlock } = await import('../src/index.ts')
  const n = w.name(); const q = w.queue(n)
  const rl = new Redlock({ masters: ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'], namespace: 'zz', logger: silentLogger })
  const wk = w.worker(n, async () => {}, { redlock: rl })
  await pause(100)
  const t = performance.now(); await wk.drain({ timeoutMs: 1000 }); const took = performance.now() - t
  await rl.close()
  return { took: Math.round(took) }
})
await probe('A1 held job retried, completed by a plain worker', async () => {
  const n = w.name(); const q = w.queue(n)
  const wk = w.worker(n, async (j: any) => { if (j.name === 'f') throw new Error('x') }, { onFailure: 'block' })
  const f = await q.add('f', { r: 'a' }); await until('failed', async () => (await q.getFailedCount()) === 1)
  await wk.close()
  await q.add('g', { r: 'a' })
  const plain = new Worker(n, async () => 'ok', { connection: w.connection }); 
  await (await q.getJob(f.id!))!.retry()
  await until('done', async () => (await q.getCompletedCount()) === 1); await plain.close()
  const wk2 = w.worker(n, async () => 'ok', { onFailure: 'block' })
  await until('second done', async () => (await q.getCompletedCount()) === 2, 5000)
  return 'ok'
})
await probe('A8 flow with odd timestamps', async () => {
  const n = w.name(); const q = w.queue(n)
  const flow = new FlowProducer({ connection: w.connection })
  const ran: string[] = []
  const wk = w.worker(n, async (j: any) => { ran.push(j.name); if (j.name === 'c' && j.attemptsMade === 0) throw new Error('once') })
  const ts = performance.timeOrigin + performance.now() + 0.5
  await flow.add({ name: 'p', queueName: n, data: { r: 'a' }, opts: { timestamp: ts }, children: [{ name: 'c', queueName: n, data: { r: 'a' }, opts: { timestamp: ts, attempts: 2, backoff: 10 } }, { name: 'd', queueName: n, data: { r: 'a' }, opts: { timestamp: ts } }] })
  await until('3', async () => (await q.getCompletedCount()) === 3, 5000); await flow.close()
  const lines = (await redis.keys(`bull:${n}:redlock:::line:*`))
  return { ran, lines }
})
await w.end(); process.exit(0)
