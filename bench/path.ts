/**
 * What one acquire and one job run: source files and functions, by V8's coverage. A reader has to
 * read these, so their number is kept small. `--help` says more.
 */
import { Session } from 'node:inspector/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { readOptions } from '../scripts/read-options.ts'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'

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
/**
 * V8's name for what makes the fields of an object, which are read with the class's constructor;
 * and what the loader adds.
 */
const UNREAD = ['<instance_members_initializer>', '__name']

/** A function that ran, and where it begins: names are given twice. */
interface Ran {
  readonly file: string
  readonly name: string
  readonly offset: number
  /** Of its file, and where it ends there. */
  readonly script: string
  readonly end: number
}

/** What has run since the last call. */
async function ran(): Promise<readonly Ran[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  return result.flatMap(({ url, scriptId: script, functions }) => {
    const [, file] = /^(?!.*\/node_modules\/).*\/src\/([^?]+)/.exec(url) ?? []
    if (file === undefined) return []
    return functions.flatMap(({ functionName: name, ranges: [range] }) => {
      if (range === undefined || range.count === 0 || UNREAD.includes(name)) return []
      return [{ file, name, script, offset: range.startOffset, end: range.endOffset }]
    })
  })
}

/** The loader has named many: `__name(() => …, "observe")`. */
async function nameOf({ name, script, end }: Ran): Promise<string> {
  if (name !== '') return name
  const { scriptSource } = await session.post('Debugger.getScriptSource', { scriptId: script })
  return /^, ?"([^"]+)"\)/.exec(scriptSource.slice(end, end + 100))?.[1] ?? '(anonymous)'
}

/** What ran in more than half of several measurements: a line a file, and the sum. */
async function printPath(what: string, paths: readonly (readonly Ran[])[]): Promise<void> {
  const times = new Map<string, Ran[]>()
  for (const one of paths.flat()) {
    const key = `${one.file}:${one.offset}`
    times.set(key, [...(times.get(key) ?? []), one])
  }
  const often = [...times.values()].filter((same) => same.length > paths.length / 2)
  const path = often.flatMap(([one]) => one ?? [])
  const files = new Set(path.map(({ file }) => file))
  for (const file of files) {
    const names = await Promise.all(path.filter((one) => one.file === file).map(nameOf))
    console.log(`${file.padEnd(40)} ${String(names.length).padStart(3)}  ${names.join(' ')}`)
  }
  console.log(`${what}: ${files.size} files, ${path.length} functions`)
}

const fleet = await startFleet({ masters: 5 })
const options = { masters: fleet.urls, logger: silentLogger }
const locks = new Redlock(options)
await locks.bootstrap({ newFleet: true })
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

for (let index = 0; index < WARM_UP; index++) {
  const lease = await locks.acquire(`warm-${index}`)
  await lease.release()
}
await delay(SETTLE_MS)
await ran()
const lease = await locks.acquire('r')
const acquired = await ran()
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
await session.post('Debugger.enable')
await printPath('acquire', [acquired])
await printPath('job', paths)
