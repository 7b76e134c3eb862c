// SIZE=1|8 KEPT=1 node --import tsx .scratch/micro.ts
import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { Redis } from 'ioredis'
import { Worker, Queue } from 'bullmq'
import { LockedQueue } from '../src/worker/locked-queue.ts'
import { LineBackend } from '../src/line/line-backend.ts'
const SIZE = Number(process.env.SIZE ?? 1), LINES = 64, EACH = Number(process.env.EACH ?? 40), ROUNDS = Number(process.env.ROUNDS ?? 15)
const port = 20000 + Math.floor(Math.random() * 20000)
const dir = mkdtempSync('/tmp/micro-')
const VG = process.env.VG === '1'
const proc = spawn(VG ? 'valgrind' : 'redis-server', [...(VG ? ['--tool=callgrind', '--instr-atstart=no', `--callgrind-out-file=${dir}/out`, 'redis-server'] : []), '--port', String(port), '--dir', dir, '--save', '', '--appendonly', 'no', '--bind', '127.0.0.1'], { stdio: 'ignore' })
await new Promise((r) => setTimeout(r, VG ? 15000 : 500))
const admin = new Redis(port)
const connection = { host: '127.0.0.1', port }
const kept = process.env.KEPT === '1'
async function run(kind: 'plain' | 'ours'): Promise<{ us: number, calls: number, cmds: string }> {
  const name = kind + Math.random().toString(36).slice(2, 8)
  const queue = kind === 'plain' ? new Queue(name, { connection }) : new LockedQueue(name, { connection, resource: (d: any) => `c:${d.k}` })
  const jobs: any[] = []
  for (let j = 0; j < EACH; j++) for (let l = 0; l < LINES; l++) jobs.push({ name: 'x', data: { k: l }, opts: { removeOnComplete: !kept } })
  for (let i = 0; i < jobs.length; i += 500) await queue.addBulk(jobs.slice(i, i + 500))
  const backend: any = kind === 'plain' ? undefined : LineBackend.factory({ slots: 1, within: 'added', maxWaitMs: Infinity, onFailure: 'continue' } as any)
  const worker: any = backend ? new (Worker as any)(name, null, { connection, autorun: false }, backend) : new Worker(name, null, { connection, autorun: false })
  await worker.waitUntilReady()
  let now: any[] = []
  for (let i = 0; i < SIZE; i++) now.push(await worker.getNextJob(`t${i}`))
  const lb: any = backend ? LineBackend.of(worker) : undefined
  await admin.config('RESETSTAT')
  let done = 0
  const ctl = (...a: string[]) => { if (VG) execFileSync('callgrind_control', [...a, String(proc.pid)], { stdio: 'ignore' }) }
  ctl('-i', 'on')
  const total = jobs.length - 2 * SIZE
  while (done < total && now.length) {
    const results = await Promise.all(now.map(async (job) => {
      if (lb) {
        const turn = lb.takeTurn(job.id)
        lb.ends(job, { move: { timestamp: job.timestamp, lines: turn.lines, next: process.env.BACK && done % 16 === 0 ? 'back' : 'front', usedMs: 3, share: '', chargeMs: 1, offers: false }, sent() {}, returned() {} })
      }
      return job.moveToCompleted('r', job.token ?? 't', true)
    }))
    done += now.length
    now = results.flatMap((r: any, i) => { if (!r || !r[0]) return []; const j: any = (worker as any).createJob ? (worker as any).createJob(r[0], r[1]) : undefined; j.token = now[i].token; return [j] })
  }
  ctl('-i', 'off')
  if (VG) { ctl('-d'); await new Promise((r) => setTimeout(r, 300)); const fs = await import('node:fs'); const files = fs.readdirSync(dir).filter((f) => f.startsWith('out.')).sort((a, b) => Number(a.slice(4)) - Number(b.slice(4))); const text = fs.readFileSync(`${dir}/${files.at(-1)}`, 'utf8'); const sum = /^totals: (\d+)/m.exec(text); console.log(kind, 'Ir/job', Math.round(Number(sum?.[1]) / done)); fs.copyFileSync(`${dir}/${files.at(-1)}`, `/tmp/cg.${kind}.${SIZE}`) }
  const st = await admin.info('commandstats')
  const ev = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(st)!
  const cmds = [...st.matchAll(/cmdstat_(\S+):calls=(\d+),usec=(\d+)/g)].filter(([, n]) => n !== 'evalsha').map(([, n, c]) => `${n} ${(Number(c) / done).toFixed(2)}`).join(' ')
  await worker.close(); await queue.obliterate({ force: true }); await queue.close()
  return { us: Number(ev[2]) / done, calls: Number(ev[1]), cmds }
}
const us: Record<string, number[]> = { plain: [], ours: [] }
let cmds: any = {}
const kinds = (process.env.KINDS ?? 'plain,ours').split(',') as any[]
for (let r = 0; r < ROUNDS; r++) for (const k of kinds) { const x = await run(k); us[k]!.push(x.us); cmds[k] = x.cmds }
for (const k of kinds) { const s = us[k]!.sort((a, b) => a - b); console.log(k, 'min', s[0]!.toFixed(1), 'q1', s[Math.floor(s.length / 4)]!.toFixed(1), 'med', s[s.length >> 1]!.toFixed(1)); if (process.env.CMDS) console.log(cmds[k]) }
proc.kill(); process.exit(0)
