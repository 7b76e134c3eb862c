import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { Queue } from 'bullmq'
import { LockedQueue } from '../src/worker/locked-queue.ts'
const port = 20000 + Math.floor(Math.random() * 20000)
const dir = mkdtempSync('/tmp/micro-')
const proc = spawn('valgrind', ['--tool=callgrind', '--instr-atstart=no', `--callgrind-out-file=${dir}/out`, 'redis-server', '--port', String(port), '--dir', dir, '--save', '', '--appendonly', 'no', '--bind', '127.0.0.1'], { stdio: 'ignore' })
await new Promise((r) => setTimeout(r, 15000))
const connection = { host: '127.0.0.1', port }
let dumps = 0
const ctl = (...a: string[]) => execFileSync('callgrind_control', [...a, String(proc.pid)], { stdio: 'ignore' })
async function measure(label: string, n: number, fn: () => Promise<unknown>) {
  ctl('-i', 'on'); await fn(); ctl('-i', 'off'); ctl('-d'); await new Promise((r) => setTimeout(r, 300)); dumps++
  const t = /^totals: (\d+)/m.exec(readFileSync(`${dir}/out.${dumps}`, 'utf8'))![1]
  console.log(label.padEnd(30), Math.round(Number(t) / n))
}
for (const kind of (process.env.KINDS ?? 'plain,ours').split(',')) {
  const make = (n: string): any => kind === 'plain' ? new Queue(n, { connection }) : new LockedQueue(n, { connection, resource: (d: any) => `c:${d.k}` })
  const q = make('q' + kind); await q.waitUntilReady()
  const many = (from: number, n: number) => Array.from({ length: n }, (_, i) => ({ name: 'x', data: { k: (from + i) % 100 }, opts: {} }))
  await q.addBulk(many(0, 100))
  await measure(kind + ' addBulk 500', 500, () => q.addBulk(many(0, 500)))
  await measure(kind + ' 25 adds in a tick', 500, async () => { for (let i = 0; i < 20; i++) await Promise.all(many(i * 25, 25).map((j) => q.add(j.name, j.data))) })
  await measure(kind + ' one add', 100, async () => { for (const j of many(0, 100)) await q.add(j.name, j.data) })
  await q.close()
}
proc.kill(); process.exit(0)
