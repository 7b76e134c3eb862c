import { Cluster, Redis } from 'ioredis'
import { Queue, Worker } from 'bullmq'
import calc from 'cluster-key-slot'
import { startCluster } from '../test/support/redis-cluster.ts'
import { world, pause, until } from './lib.ts'
import { LockedQueue, LockedWorker, silentLogger } from '../src/index.ts'
const w = await world()
const nodes = await startCluster()
const connect = () => new Cluster(nodes.map(({ host, port }) => ({ host, port })), { redisOptions: { maxRetriesPerRequest: null } })
const clients = nodes.map((n) => new Redis(n.url))
const ids = await Promise.all(clients.map((c) => c.call('CLUSTER', 'MYID'))) as string[]
const kind = process.argv[2] ?? 'ours'
for (let round = 0; round < 1; round++) {
const prefix = `{p${round}x}`
const slot = calc(prefix + ':x')
const name = 'q' + round
const per = 16384 / 3
let owner = Math.min(2, Math.floor(slot / Math.floor(per)))
for (let i = 0; i < 3; i++) { const r = await clients[i].call('CLUSTER', 'SLOTS') as any[]; const mine = r.find((e) => slot >= e[0] && slot <= e[1]); owner = ids.indexOf(mine[2][2]); }
const target = (owner + 1) % 3
console.log('slot', slot, 'owner', owner, 'target', target)
const c1 = connect(), c2 = connect()
const ours = kind === 'ours'
const queue: any = ours ? new LockedQueue<any>(name, { connection: c1, prefix, resource: (d) => 'c' + d.c }) : new Queue(name, { connection: c1, prefix })
queue.on('error', (e: any) => console.log('queue error', String(e).slice(0, 150)))
const ran: string[] = []
const errs = new Map<string, number>()
const proc = async (job: any) => { ran.push(job.data.c + ':' + job.data.nr); await pause(5) }
const wk: any = ours ? new LockedWorker<any>(name, proc, { connection: c2, prefix, redlock: w.redlock, resource: (j) => 'c' + j.data.c, concurrency: 4, logger: silentLogger })
 : new Worker(name, proc, { connection: c2, prefix, concurrency: 1 })
wk.on('error', (e: any) => { const t = String(e).slice(0, 150).replace(/\d+/g, 'N'); errs.set(t, (errs.get(t) ?? 0) + 1) })
let nr = 0, stop = false; const failed: string[] = []
const adding = (async () => { while (!stop) { const n = nr; try { await queue.add('x', { c: n % 3, nr: n }); nr++ } catch (e) { failed.push(String(e).slice(0, 160)); await pause(100) } await pause(4) } })()
await pause(500)
// migrate
await clients[target].call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', ids[owner])
await clients[owner].call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', ids[target])
const t0 = performance.now()
let moved = 0
const first = (process.argv[4] ?? '').split(',').filter(Boolean).map((k) => `${prefix}:${name}:${k}`)
const calls: string[] = []
const call = (what: string, f: () => Promise<any>) => f().then((v) => calls.push(what + ' ok ' + JSON.stringify(v)?.slice(0, 60)), (e) => calls.push(what + ' ' + String(e).slice(0, 120)))
if (first.length) { console.log('first', await clients[owner].call('MIGRATE', nodes[target].host, nodes[target].port, '', 0, 5000, 'KEYS', ...first))
 if (ours) { void call('setSlots', () => queue.setSlots('c0', 1)); void call('pause', () => queue.pauseResource('czz')); void call('why', () => wk.why('1')); void call('limits', () => queue.getAllLimits()); void call('position', () => queue.position('3')); void call('inspect', () => wk.inspect('c0')) }
 await pause(3000) }
const stepMs = Number(process.argv[3] ?? 20)
const endAt = performance.now() + 6000
for (;;) {
  const keys = await clients[owner].call('CLUSTER', 'GETKEYSINSLOT', slot, 5) as string[]
  if (keys.length === 0) break
  let r: any
  try { r = await clients[owner].call('MIGRATE', nodes[target].host, nodes[target].port, '', 0, 5000, 'KEYS', ...keys) } catch (e) { console.log('MIGRATE FAILED', String(e).slice(0, 200)); for (const k of keys) { const e = await clients[owner].call('MIGRATE', nodes[target].host, nodes[target].port, k, 0, 5000).catch((e) => String(e)); if (e !== 'OK') console.log('  ', k, e) ; await clients[owner].call('MIGRATE', nodes[target].host, nodes[target].port, k, 0, 5000, 'REPLACE').catch(() => 0) } }
  moved += keys.length
  await pause(performance.now() > endAt ? 0 : stepMs)
}
console.log(calls.join('\n'))
console.log('moved', moved, 'in', Math.round(performance.now() - t0), 'ran', ran.length, 'added', nr, 'failed adds', failed.length, failed[0])
for (const i of [target, owner, 0, 1, 2]) await clients[i].call('CLUSTER', 'SETSLOT', slot, 'NODE', ids[target])
await pause(1000); stop = true; await adding
try { await until('all run', async () => (await queue.getCompletedCount()) >= nr, 15000) } catch (e) { console.log('STUCK', String(e)) }
console.log('ran', ran.length, 'unique', new Set(ran).size, 'added', nr, JSON.stringify(await queue.getJobCounts()), 'errs', JSON.stringify([...errs]), 'failed adds', failed.length, JSON.stringify([...new Set(failed)]))
for (const c of [0,1,2]) { const order = ran.filter((r) => r.startsWith(c + ':')).map((r) => Number(r.split(':')[1])); const ok = order.every((n, i) => i === 0 || n > order[i-1]); if (!ok) console.log('order broken', c, order.join().slice(0, 300)) }
await Promise.race([wk.close(), pause(4000)]); await Promise.race([queue.close(), pause(2000)]); c1.disconnect(); c2.disconnect()
}
process.exit(0)
