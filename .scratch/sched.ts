import { Redlock, LockedQueue, LockedWorker, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { Queue, Worker } from 'bullmq'
const fleet = await startFleet({ masters: 1 })
const connection = { url: fleet.queue.url }
const redlock = new Redlock({ masters: fleet.urls, leaseMs: 2000, maxLeaseMs: 2000, masterTimeoutMs: 500, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms))
async function pauseCase(ours: boolean, kind: 'pause' | 'resource' | 'stop', concurrency: number) {
  const name = 's' + Math.floor(Math.random() * 1e9)
  const runs: number[] = []
  const proc = async () => { runs.push(Date.now()); await sleep(150) }
  const q: any = ours ? new LockedQueue(name, { connection, resource: () => 'r' } as any) : new Queue(name, { connection })
  const make = (): any => { const w: any = ours ? new LockedWorker(name, proc as any, { connection, redlock, resource: () => 'r', concurrency, logger: silentLogger } as any) : new Worker(name, proc, { connection, concurrency }); w.on('error', (e: any) => console.log('W', e.message)); return w }
  let w = make()
  await q.upsertJobScheduler('tick', { every: 100 }, { name: 't' })
  await sleep(1500)
  const before = runs.length
  if (kind === 'pause') await q.pause(); else if (kind === 'resource' && ours) await q.pauseResource?.('r'); else if (kind === 'stop') await w.close(); else await q.pause()
  await sleep(4000)
  const during = runs.length - before
  const counts = await q.getJobCounts()
  if (kind === 'pause' || (kind === 'resource' && !ours)) await q.resume(); else if (kind === 'resource') await q.resumeResource?.('r'); else w = make()
  const t = Date.now()
  await sleep(2000)
  const after = runs.filter((x) => x >= t)
  console.log(ours ? 'ours ' : 'plain', kind, { concurrency, before, during, unfinishedDuring: counts.waiting + counts.delayed + counts.active + counts.prioritized + (counts.paused ?? 0), after: after.length, first500: after.filter((x) => x < t + 500).length })
  await q.removeJobScheduler('tick'); await w.close(true); await q.close()
}
for (const c of [1, 3]) for (const k of ['pause', 'resource', 'stop'] as const) for (const o of [false, true]) await pauseCase(o, k, c)
await redlock.close(); await fleet.close(); process.exit()
