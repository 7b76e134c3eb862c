import { Redlock, LockedQueue, LockedWorker, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { Queue, Job } from 'bullmq'
const fleet = await startFleet({ masters: 1 })
const connection = { url: fleet.queue.url }
const redlock = new Redlock({ masters: fleet.urls, leaseMs: 2000, maxLeaseMs: 2000, masterTimeoutMs: 500, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms))
async function heldCase(what: string, act: (plain: Queue, id: string) => Promise<unknown>) {
  const name = 'h' + Math.floor(Math.random() * 1e9)
  const done: string[] = []; let fails = true
  const q: any = new LockedQueue(name, { connection, resource: (d: any) => d.r } as any)
  const w: any = new LockedWorker(name, (async (job: any) => { if (job.name === 'bad' && fails) throw new Error('no'); done.push(job.id) }) as any, { connection, redlock, resource: (j: any) => j.data.r, onFailure: 'block', concurrency: 4, logger: silentLogger } as any)
  w.on('error', (e: any) => console.log('W', e.message))
  const bad = await q.add('bad', { r: 'a' })
  for (let i = 0; i < 3; i++) await q.add('ok', { r: 'a' })
  await q.add('ok', { r: 'b' })
  await sleep(800)
  const before = [...done]
  fails = false
  const plain = new Queue(name, { connection })
  let r: any; try { r = await act(plain, bad.id) } catch (e: any) { r = 'threw ' + e.message }
  const t = Date.now(); while (done.length < 4 && Date.now() < t + 5000) await sleep(20)
  const took = Date.now() - t
  await sleep(300)
  const c = await plain.getJobCounts()
  console.log(what, { before, result: typeof r === 'object' ? JSON.stringify(r) : r, done, took, counts: JSON.stringify(c) })
  await w.close(true); await q.close(); await plain.close()
}
await heldCase('plain remove', (p, id) => p.remove(id))
await heldCase('plain job.remove', async (p, id) => (await Job.fromId(p, id))!.remove())
await heldCase('plain job.retry', async (p, id) => (await Job.fromId(p, id))!.retry())
await heldCase('plain retryJobs', (p) => p.retryJobs({ state: 'failed' }))
await heldCase('plain clean', (p) => p.clean(0, 100, 'failed'))
await heldCase('plain obliterate', (p) => p.obliterate({ force: true }))
await heldCase('plain drain', (p) => p.drain(true))
await heldCase('plain retry+lifo/moveToWait via promoteJobs', (p) => p.promoteJobs())
await heldCase('nothing', async () => 0)
await redlock.close(); await fleet.close(); process.exit()
