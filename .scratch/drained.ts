import { Queue, Worker, QueueEvents } from 'bullmq'
import { world, pause, until } from './lib.ts'
const w = await world()
async function once(ours: boolean, opts: (i: number) => any, qo: any = {}, wo: any = {}, work = 10) {
  const name = w.name()
  const q: any = ours ? w.queue(name, qo) : new Queue(name, { connection: w.connection })
  const ev = new QueueEvents(name, { connection: w.connection }); await ev.waitUntilReady()
  let told = 0; ev.on('drained', () => told++)
  await q.addBulk(Array.from({ length: 8 }, (_, i) => ({ name: 'x', data: { r: 'a' }, opts: opts(i) })))
  let done = 0; const seen: number[] = []
  const proc = async () => { await pause(work); }
  const wk: any = ours ? w.worker(name, proc, wo) : new Worker(name, proc, { connection: w.connection, ...wo, concurrency: 1 })
  wk.on('completed', () => done++)
  wk.on('drained', () => seen.push(8 - done))
  await until('done', () => done === 8); await pause(250)
  await ev.close(); await wk.close(); await q.close()
  return JSON.stringify(seen) + ' q' + told
}
const tally = async (label: string, f: () => Promise<string>, n = 40) => {
  const m: any = {}; for (let i = 0; i < n; i++) { const r = await f(); m[r] = (m[r] ?? 0) + 1 }
  console.log(label, JSON.stringify(m))
}


await tally('ours prio', () => once(true, (i) => ({ priority: 1 + i % 3 })))
await tally('ours prio within', () => once(true, (i) => ({ priority: 1 + i % 3 }), { within: 'priority' }))

await tally('ours several', () => once(true, () => ({}), { resource: () => [name2(), 'zz'] }))

function name2() { return 'a' }
await w.end(); process.exit(0)
