import { Redlock, LockedQueue, LockedWorker, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { Queue } from 'bullmq'
const fleet = await startFleet({ masters: 1 })
const connection = { url: fleet.queue.url }
const redlock = new Redlock({ masters: fleet.urls, leaseMs: 2000, maxLeaseMs: 2000, masterTimeoutMs: 500, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
async function run(label: string, o: { prefix?: string; name?: string; adds: (q: LockedQueue<any>) => Promise<void>; expect: number; resource?: (d: any) => any }) {
  const name = o.name ?? 'q' + Math.floor(Math.random() * 1e9)
  const resource = o.resource ?? ((d: any) => d.r)
  const done: string[] = []; const errors: string[] = []
  let running = new Map<string, number>(), overlap = 0
  try {
    const opts = { connection, ...(o.prefix && { prefix: o.prefix }), resource }
    const q = new LockedQueue<any>(name, opts as any)
    q.on('error', (e) => errors.push('Q ' + e.message))
    const w = new LockedWorker<any>(name, async (job) => {
      const r = String(job.data.r); running.set(r, (running.get(r) ?? 0) + 1)
      if (running.get(r)! > 1) overlap++
      await new Promise((r) => setTimeout(r, 5)); running.set(r, running.get(r)! - 1)
      done.push(job.id!)
    }, { ...opts, redlock, concurrency: 10, logger: silentLogger } as any)
    w.on('error', (e) => errors.push('W ' + e.message))
    w.on('failed', (j, e) => errors.push('F ' + j?.id + ' ' + e.message))
    await o.adds(q).catch((e) => errors.push('ADD ' + e.message))
    const until = Date.now() + 6000
    while (done.length < o.expect && Date.now() < until) await new Promise((r) => setTimeout(r, 20))
    console.log(label, { done: done.length, of: o.expect, overlap, errors: [...new Set(errors)].slice(0, 4) })
    await w.close(true); await q.close()
  } catch (e: any) { console.log(label, 'THROWS', e.message) }
}
await run('id = line key', { adds: async (q) => { for (let i = 0; i < 5; i++) await q.add('j', { r: 'customer' }); await q.add('j', { r: 'x' }, { jobId: 'redlock:line:customer' }); for (let i = 0; i < 5; i++) await q.add('j', { r: 'customer' }) }, expect: 11 })
await run('id = line key first', { adds: async (q) => { await q.add('j', { r: 'customer' }, { jobId: 'redlock:line:customer' }); for (let i = 0; i < 5; i++) await q.add('j', { r: 'customer' }) }, expect: 6 })
await run('id = rate key', { adds: async (q) => { await q.setRate('customer', { limit: 100, perMs: 1000 } as any); await q.add('j', { r: 'customer' }, { jobId: 'redlock:rate:customer' }); for (let i = 0; i < 5; i++) await q.add('j', { r: 'customer' }) }, expect: 6 })
const odd = ['a:b', 'a b', 'a{x}b', '{', '*', '[a-z]?', '%d+', 'ü–漢😀', 'a"b\\c', "a\nb", 'a#2', '__proto__', 'constructor', ' ', 'toString', '"', '["x"]', 'a\0b', 'line:a', '\u2028', 'x'.repeat(512)]
await run('odd resources', { adds: async (q) => { for (const r of odd) for (let i = 0; i < 3; i++) await q.add('j', { r }) }, expect: odd.length * 3 })
const oddIds = ['a b', '5 7', 'ü', '{', '*', '%d', 'a"b', '-', ' x', 'x ', 'a\nb']
await run('odd ids', { adds: async (q) => { for (const jobId of oddIds) await q.add('j', { r: 'same' }, { jobId }) }, expect: oddIds.length })
for (const name of ['q q', 'q{x', '*', '[a]', 'ü', '%d', 'line', 'redlock', 'lease', "'"]) await run('queue ' + name, { name, adds: async (q) => { for (let i = 0; i < 4; i++) await q.add('j', { r: 'a' + (i % 2) }) }, expect: 4 })
// nested prefixes: q in bull, and line in bull:q:redlock
await run('outer', { prefix: 'P', name: 'q', adds: async (q) => { for (let i = 0; i < 4; i++) await q.add('j', { r: 'wait' }) }, expect: 4 })
const held = new LockedQueue<any>('q', { connection, prefix: 'P', resource: (d: any) => d.r } as any)
for (let i = 0; i < 4; i++) await held.add('j', { r: 'wait' }).catch((e) => console.log('held', e.message))
for (let i = 0; i < 4; i++) await held.add('j', { r: 'meta' }).catch((e) => console.log('held', e.message))
await run('inner line', { prefix: 'P:q:redlock', name: 'line', adds: async (q) => { for (let i = 0; i < 4; i++) await q.add('j', { r: 'a' }) }, expect: 4 })
await run('inner redlock', { prefix: 'P:q', name: 'redlock', adds: async (q) => { for (let i = 0; i < 4; i++) await q.add('j', { r: 'a' }); await q.add('j', { r: 'a' }, { jobId: 'limits' }) ; await q.add('j', { r: 'a' }, { jobId: 'seq' })}, expect: 6 })
await run('outer again', { prefix: 'P', name: 'q', adds: async (q) => { for (let i = 0; i < 4; i++) await q.add('j', { r: 'wait' }) }, expect: 12 })
await held.close(); await redlock.close(); await fleet.close(); process.exit()
