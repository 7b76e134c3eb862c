/** What one acquire and one job run, by the built package; `--help` says more. */
import { setTimeout as delay } from 'node:timers/promises'
import { readOptions } from '../scripts/read-options.ts'
import { startFleet } from '../src/testing/index.ts'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from './built.ts'
import { ofMost, printPath, startCoverage } from './path-coverage.ts'

const USAGE = `Which source files and functions one uncontended acquire and one job run.

  npm run bench:path

Exit code: 0 measured, 2 bad arguments.`

readOptions(USAGE, {})
const WARM_UP = 50
const MEASURED = 15
/** All masters have answered then: a job that ends before asks whether one may still grant. */
const WORK_MS = 20
/** The masters' answers to a release, and BullMQ's next wait for a job. */
const SETTLE_MS = 50

const fleet = await startFleet({ masters: 5 })
const options = { masters: fleet.urls, logger: silentLogger }
const locks = new Redlock(options)
await locks.bootstrap({ newFleet: true })
const ran = await startCoverage()

for (let index = 0; index < WARM_UP; index++) {
  const lease = await locks.acquire(`warm-${index}`)
  await lease.release()
}
await delay(SETTLE_MS)
await ran()
const lease = await locks.acquire('r')
printPath('acquire', await ran())
await lease.release()
await locks.close()

// A job is added by a `LockedQueue`, takes one step under its lease, and is completed.
const connection = { host: fleet.queue.host, port: fleet.queue.port }
const redlock = new Redlock(options)
await redlock.ready()
const queue = new LockedQueue<{ key: string }>('path', { connection, resource: ({ key }) => key })
const worker = new LockedWorker<{ key: string }, string>(
  'path',
  (_job, lease) => lease.step('only', () => delay(WORK_MS, 'done')),
  { connection, redlock, resource: ({ data }) => data.key, logger: silentLogger },
)

let completed = (): void => undefined
// A listener that comes and goes would run functions of the worker.
worker.on('completed', () => {
  completed()
})

async function runOne(key: string): Promise<void> {
  const isCompleted = new Promise<void>((resolve) => {
    completed = resolve
  })
  await queue.add('job', { key })
  await isCompleted
  await delay(SETTLE_MS)
}

for (let index = 0; index < WARM_UP; index++) await runOne(`warm-job-${index}`)
const paths = []
for (let index = 0; index < MEASURED; index++) {
  await ran()
  await runOne(`r-${index}`)
  paths.push(await ran())
}
await worker.close()
await queue.close()
await redlock.close()
await fleet.close()
// A timer of the worker may fall into the time of a job, so what counts is what most jobs run.
printPath('job', ofMost(paths))
