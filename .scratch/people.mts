import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { setTimeout as delay } from 'node:timers/promises'
import { startFleet } from '../src/testing/index.ts'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from '../src/index.ts'
const run = promisify(execFile)
const fleet = await startFleet({ masters: 1 })
const env = { ...process.env, BULLMQ_REDLOCK_MASTERS: fleet.urls.join(), BULLMQ_REDLOCK_QUEUE: fleet.queue.url, COLUMNS: '80' }
const cli = async (...args: string[]) => {
  const r = await run('npx', ['tsx', '../src/tools/cli/main.ts', ...args], { env }).then(({stdout, stderr}) => ({stdout, stderr, code: 0}), (e) => ({ stdout: e.stdout, stderr: e.stderr, code: e.code }))
  console.log(`$ bullmq-redlock ${args.join(' ')}\n${r.stdout}${r.stderr}[exit ${r.code}; widest ${Math.max(...(r.stdout+r.stderr).split('\n').map((l: string)=>l.length))}]\n`)
}
const connection = { url: fleet.queue.url }
const invoices = new LockedQueue('invoices', { connection, resource: (d: any) => `customer:${d.customer}` })
const mail = new LockedQueue('mail', { connection, resource: (d: any) => `customer:${d.customer}` })
console.log('== 6/7: a new fleet, nobody connected')
await invoices.add('a', { customer: 1 })
await cli('doctor')
await cli('why', 'invoices', '1')
const redlock = new Redlock({ masters: fleet.urls, logger: { debug() {}, info: (f: object, m: string) => console.log('LOG info', m, JSON.stringify(f)), warn: (f: object, m: string) => console.log('LOG warn', m, JSON.stringify(f)), error: (f: object, m: string) => console.log('LOG error', m, JSON.stringify(f)) } })
const t0 = Date.now()
const mailer = new LockedWorker('mail', async () => { console.log('mail ran') }, { connection, redlock, resource: (j: any) => `customer:${j.data.customer}` })
await delay(1500)
await cli('bootstrap', '--yes')
const booted = Date.now()
await mail.add('m', { customer: 1 })
console.log('== 2: no worker on invoices, mail of customer 1')
await delay(2500)
await cli('why', 'invoices', '1')
await cli('inspect', 'customer:1')
await cli('doctor')
console.log('== 1: forgotten await')
let running = 0, overlaps = 0
const w = new LockedWorker('invoices', async (job: any, lease: any) => {
  if (job.data.forget) { void lease.step('charge', async () => { running++; if (running > 1) overlaps++; await delay(500); running-- }); return }
  running++; if (running > 1) overlaps++
  if (job.data.fails) { running--; throw new Error('card declined') }
  await delay(20); running--
}, { connection, redlock, resource: (j: any) => `customer:${j.data.customer}`, onFailure: 'block', concurrency: 5 })
w.on('failed', (j, e) => console.log('failed', j?.id, e.message))
await invoices.add('f', { customer: 2, forget: true }); await invoices.add('f', { customer: 2 })
await delay(2000)
console.log({ overlaps })
console.log('== 5: a failure that blocks')
await invoices.add('x', { customer: 3, fails: true }); const second = await invoices.add('y', { customer: 3 })
await delay(1000)
await cli('why', 'invoices', second.id!)
await cli('doctor')
await cli('leases'); await cli('rate', '--help'); await cli('release', 'customer:3')
await cli('skip', 'invoices', String(Number(second.id) - 1))
await delay(500); console.log('second is', await second.getState())
await Promise.all([w.close(), mailer.close(), invoices.close(), mail.close()]); await redlock.close(); await fleet.close()
