/**
 * What one job runs: added by a `LockedQueue`, one step under its lease, completed by a
 * `LockedWorker`. It measures the built package.
 *
 * A timer of the worker may fall into the time of a job, so what counts is what most jobs run.
 */
import { startFleet } from '../src/testing/index.ts'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from './built.ts'
import { ofMost, PathCoverage, printPath } from './path-coverage.ts'

const WARM_UP = 50
const MEASURED = 15
/** All masters have answered then: a job that ends before asks whether one may still grant. */
const WORK_MS = 20
/** The masters' answers to the release, and BullMQ's next wait for a job. */
const SETTLE_MS = 50

const fleet = await startFleet({ masters: 5 })
const connection = { host: fleet.queue.host, port: fleet.queue.port }
const resource = ({ key }: { readonly key: string }): string => key
const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
const queue = new LockedQueue<{ key: string }>('path', { connection, resource })
const worker = new LockedWorker<{ key: string }, string>(
  'path',
  (_job, lease) => lease.step('only', () => later(WORK_MS, 'done')),
  { connection, redlock, resource: ({ data }) => data.key, logger: silentLogger },
)

function later<Value>(delayMs: number, value: Value): Promise<Value> {
  return new Promise((resolve) => setTimeout(resolve, delayMs, value))
}

let isCompleted = (): void => undefined
worker.on('completed', () => {
  isCompleted()
})

async function runOne(key: string): Promise<void> {
  const completed = new Promise<void>((resolve) => {
    isCompleted = resolve
  })
  await queue.add('job', { key })
  await completed
  await later(SETTLE_MS, undefined)
}

const coverage = await PathCoverage.start()
for (let index = 0; index < WARM_UP; index++) await runOne(`warm-${index}`)
const paths = []
for (let index = 0; index < MEASURED; index++) {
  await coverage.take()
  await runOne(`r-${index}`)
  paths.push(await coverage.take())
}
await worker.close()
await queue.close()
await redlock.close()
await fleet.close()
printPath('job', ofMost(paths))
