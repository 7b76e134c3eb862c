import { Redlock, LockedWorker, LockedQueue } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { Redis } from 'ioredis'
const fleet = await startFleet({ masters: 5 })
const r = new Redlock({
  masters: fleet.urls,
  leaseMs: 2000,
  maxLeaseMs: 3000,
  logger: { debug() {}, info() {}, warn() {}, error() {} },
})
await r.bootstrap()
const connection = { host: fleet.queue.host, port: fleet.queue.port }
async function load(keys: number, jobs: number, ms: number, useLockedQueue: boolean) {
  const name = 'q' + keys + useLockedQueue
  const q = new LockedQueue<{ c: number; n: number }, number>(name, {
    connection,
    resource: (d) => `${name}:${d.c}`,
  })
  const red = new Redis(connection)
  await red.config('RESETSTAT')
  const order = new Map<number, number[]>()
  let done = 0,
    req: Record<string, number> = {}
  const ws = [1, 2, 3, 4].map(
    () =>
      new LockedWorker<{ c: number; n: number }, number>(
        name,
        async (job, lease) => {
          const o = order.get(job.data.c) ?? []
          o.push(job.data.n)
          order.set(job.data.c, o)
          await lease.step('a', () => new Promise((r) => setTimeout(r, ms)))
          return 1
        },
        { connection, redlock: r, resource: (j) => `${name}:${j.data.c}`, concurrency: 5 },
      ),
  )
  for (const w of ws) {
    w.on('completed', () => done++)
    w.on('requeued', (_, x) => (req[x.status] = (req[x.status] ?? 0) + 1))
    w.on('error', (e) => console.log(e))
    w.on('failed', (_, e) => console.log(e))
  }
  await Promise.all(ws.map((w) => w.waitUntilReady()))
  const t = performance.now()
  const list = Array.from({ length: keys * jobs }, (_, i) => ({
    name: 'x',
    data: { c: i % keys, n: Math.floor(i / keys) },
  }))
  if (useLockedQueue) await q.addBulk(list)
  else await (await import('bullmq')).Queue.prototype.addBulk.call(q, list)
  while (done < keys * jobs) await new Promise((r) => setTimeout(r, 2))
  const took = performance.now() - t
  let inv = 0
  for (const o of order.values()) for (let i = 1; i < o.length; i++) if (o[i]! < o[i - 1]!) inv++
  const stats = (await red.info('commandstats'))
    .split('\r\n')
    .map((l) => /cmdstat_([^:]+):calls=(\d+)/.exec(l))
    .filter(Boolean)
    .reduce((s, m) => s + Number(m![2]), 0)
  console.log({
    keys,
    jobs,
    ms,
    useLockedQueue,
    ratio: (took / (jobs * ms)).toFixed(3),
    inv,
    req,
    cmds: (stats / (keys * jobs)).toFixed(1),
  })
  await Promise.all(ws.map((w) => w.close()))
  await q.close()
  await red.quit()
}
await load(1, 60, 50, true)
await load(1, 60, 50, false)
await load(10, 30, 20, true)
await load(10, 30, 20, false)
await load(1000, 20, 0, true)
await r.close()
await fleet.close()
