import { Redlock, LockedQueue, LockedWorker, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
const fleet = await startFleet({ masters: 1 })
const connection = { url: fleet.queue.url }
const redlock = new Redlock({ masters: fleet.urls, leaseMs: 2000, maxLeaseMs: 2000, masterTimeoutMs: 500, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms))
async function c(label: string, o: any) {
  const name = 'd' + Math.floor(Math.random() * 1e9)
  let computed = 0, failed: string[] = [], done = 0
  try {
    const { workerSlots, queueSlots, setSlots, key, res } = o
    const q: any = new LockedQueue(name, { connection, resource: (d: any) => d.r, ...(queueSlots && { slots: queueSlots }) } as any)
    if (setSlots) await q.setSlots('a', setSlots)
    const w: any = new LockedWorker(name, (async () => { computed++; await sleep(200); return 42 }) as any, { connection, redlock, resource: (j: any) => j.data.r, concurrency: 8, dedupe: { resultTtlMs: 5000, ...(key && { key: () => 'k' }) }, ...(workerSlots && { slots: workerSlots }), logger: silentLogger } as any)
    w.on('error', (e: any) => console.log('W', e.message)); w.on('failed', (_: any, e: any) => failed.push(e.message)); w.on('completed', () => done++)
    for (let i = 0; i < 8; i++) await q.add('j', { r: res ? res(i) : 'a' })
    const t = Date.now(); while (done + failed.length < 8 && Date.now() < t + 8000) await sleep(20)
    console.log(label, { computed, done, failed: [...new Set(failed)] })
    await w.close(true); await q.close()
  } catch (e: any) { console.log(label, 'REFUSED', e.message) }
}
await c('plain', {})
await c('workerSlots 3', { workerSlots: 3, queueSlots: 3 })
await c('setSlots 3', { setSlots: 3 })
await c('map', { workerSlots: { a: 3 }, queueSlots: { a: 3 } })
await c('queue slots only', { queueSlots: 3 })
await c('key over resources', { key: true, res: (i: number) => 'r' + (i % 3) })
await c('key over [a,x],[a,y]', { key: true, res: (i: number) => ['a', 'x' + (i % 3)] })
await redlock.close(); await fleet.close(); process.exit()
