/** The command line of the simulation; `--help` says what it takes. */
import { fork, type ChildProcess } from 'node:child_process'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { flag, integer, oneOf, readOptions, text } from '../../scripts/read-options.ts'
import { callsUsing, clocksOf, KINDS, type Clocks } from './scenario.ts'
import type { RedlockClass } from './simulated-client.ts'
import { simulate, type SimulationResult } from './simulation.ts'
import { Summary, type FailedSeed } from './summary.ts'

const USAGE = `Simulates the real lock on virtual time, with faults, and judges every lease.

  npm run sim -- [options]

  --seeds N      how many seeds to run (default 200)
  --first S      the first of them (default 1)
  --masters N    size of the fleet (default: by seed, 3 or 5)
  --clients N    worker processes (default 3)
  --clocks KIND  sane, stepped, jumps or amnesia for all seeds (default: by seed)
  --seed S       run one seed, in this process; with --seeds as --first
  --trace        with --seed: print everything that happens
  --fail-fast    stop at the first violation
  --jobs N       processes (default 2)
  --src DIR      take the lock from another source directory (default src)
  --json         print the totals as one JSON object

Exit code: 0 no violation and every fault happened, 1 otherwise, 2 bad arguments.`

/** To start a process takes as long as 50 seeds. */
const SEEDS_PER_PROCESS = 500
const TRACED_LINES = 80

interface Settings {
  readonly masters: number | undefined
  readonly clients: number
  readonly clocks: Clocks | undefined
  readonly src: string
  readonly jobs: number
  readonly failFast: boolean
}

interface Batch {
  readonly settings: Settings
  readonly seeds: readonly number[]
}

async function main(): Promise<number> {
  const {
    seed,
    seeds: many,
    ...given
  } = readOptions(USAGE, {
    seeds: integer(),
    first: integer(1),
    masters: integer(),
    clients: integer(3),
    clocks: oneOf(KINDS),
    seed: integer(),
    trace: flag,
    failFast: flag,
    jobs: integer(2),
    src: text(join(import.meta.dirname, '../../src')),
    json: flag,
  })
  const settings: Settings = { ...given, src: resolve(given.src) }
  if (seed !== undefined && many === undefined) return runOne(seed, settings, given.trace)
  const first = seed ?? given.first
  const seeds = Array.from({ length: many ?? 200 }, (_, index) => first + index)
  const summary = await runMany(seeds, settings)
  const missing = summary.missing()
  const hopeful = settings.failFast && summary.failed.length > 0
  const ok = summary.failed.length === 0 && missing.length === 0
  if (given.json) console.log(JSON.stringify({ ...summary.totals(), missing, ok }))
  else console.log(String(summary))
  for (const failed of summary.failed.slice(0, 3)) await explain(failed, settings)
  if (summary.failed.length > 0) {
    const list = summary.failed.map(({ seed }) => seed).join(' ')
    console.error(`VIOLATIONS in ${summary.failed.length} seeds: ${list}`)
  }
  if (missing.length > 0 && !hopeful) {
    console.error(`Never happened, so nothing is known about it: ${missing.join(', ')}`)
  }
  return ok ? 0 : 1
}

async function runOne(seed: number, settings: Settings, trace: boolean): Promise<number> {
  const result = await simulateSeed(
    seed,
    settings,
    trace ? (line) => process.stdout.write(`${line}\n`) : undefined,
  )
  const summary = new Summary()
  summary.add(result)
  console.log(String(summary))
  for (const { property, at, detail } of result.violations) {
    console.log(`VIOLATION ${property} at ${at.toFixed(3)}: ${detail}`)
  }
  return result.violations.length === 0 ? 0 : 1
}

async function simulateSeed(
  seed: number,
  settings: Settings,
  onTrace?: (line: string) => void,
): Promise<SimulationResult> {
  const { masters, clients, clocks, src } = settings
  const lock = (await import(pathToFileURL(join(src, 'redlock/redlock.ts')).href)) as {
    readonly Redlock: RedlockClass
  }
  return simulate({
    seed,
    clocks: clocks ?? clocksOf(seed),
    masters,
    clients,
    Redlock: lock.Redlock,
    ...(onTrace !== undefined && { onTrace }),
  })
}

/** Runs the seed again, which does the same again, and prints what led to the first violation. */
async function explain({ seed, violations }: FailedSeed, settings: Settings): Promise<void> {
  const [first] = violations
  if (first === undefined) return
  const lines: string[] = []
  let found = false
  await simulateSeed(seed, settings, (line) => {
    if (found) return
    lines.push(line)
    if (lines.length > 4_000) lines.splice(0, 2_000)
    found = line.includes('VIOLATION')
  })
  const { tokens, resource } = namedIn(first.detail)
  const telling = lines.filter(
    (line) =>
      line.includes('FAULT') ||
      line.includes('VIOLATION') ||
      tokens.some((token) => line.includes(` ${token} `)),
  )
  console.error(`seed ${seed}: ${first.property} at ${first.at.toFixed(3)}: ${first.detail}`)
  console.error(`  what touched ${resource}, and the faults before it:`)
  for (const line of telling.slice(-TRACED_LINES)) console.error(`  ${line}`)
  console.error(`  all of it: npm run sim -- --seed ${seed} --trace`)
}

function namedIn(detail: string): {
  readonly tokens: readonly string[]
  readonly resource: string
} {
  return {
    tokens: [...detail.matchAll(/\((\S{4})\) on/g)].flatMap(([, token]) => token ?? []),
    resource: / on (\S+)/.exec(detail)?.[1] ?? 'it',
  }
}

async function runMany(seeds: readonly number[], settings: Settings): Promise<Summary> {
  const summary = new Summary()
  const batches = [false, true].flatMap((using) =>
    inBatches(seeds.filter((seed) => callsUsing(seed) === using)),
  )
  const children = new Set<ChildProcess>()
  let over = false
  const lane = async (): Promise<void> => {
    for (let batch = batches.shift(); batch !== undefined && !over; batch = batches.shift()) {
      await runBatch({ settings, seeds: batch }, children, (result) => {
        if (over) return
        summary.add(result)
        const [first] = result.violations
        if (first !== undefined) {
          process.stderr.write(`seed ${result.seed}: ${first.property}: ${first.detail}\n`)
        }
        progress(summary, seeds.length)
        if (settings.failFast && summary.failed.length > 0) {
          over = true
          for (const child of children) child.kill('SIGKILL')
        }
      })
    }
  }
  await Promise.all(Array.from({ length: settings.jobs }, lane))
  if (process.stderr.isTTY) process.stderr.write('\n')
  return summary
}

/** Seeds that call `using` have processes of their own, because it makes a process slow. */
function inBatches(seeds: readonly number[]): number[][] {
  const count = Math.ceil(seeds.length / SEEDS_PER_PROCESS)
  return Array.from({ length: count }, (_, index) =>
    seeds.filter((_seed, at) => at % count === index),
  )
}

function runBatch(
  batch: Batch,
  children: Set<ChildProcess>,
  onResult: (result: SimulationResult) => void,
): Promise<void> {
  return new Promise((done, fail) => {
    const child = fork(fileURLToPath(import.meta.url), [], {
      execArgv: [...process.execArgv, '--max-semi-space-size=64'],
    })
    children.add(child)
    child.on('message', onResult)
    child.on('error', fail)
    child.on('exit', (code, signal) => {
      children.delete(child)
      if (code === 0 || signal === 'SIGKILL') done()
      else fail(new Error(`A simulation process ended with ${signal ?? code}`))
    })
    child.send(batch)
  })
}

/** This file as a child process: runs the seeds that its parent sends. */
function work(): void {
  process.once('message', (message) => {
    const { settings, seeds } = message as Batch
    const run = async (): Promise<void> => {
      for (const seed of seeds) process.send?.(await simulateSeed(seed, settings))
    }
    run().then(
      () => {
        process.disconnect()
      },
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
  })
  process.once('disconnect', () => process.exit())
}

let lastProgressAt = 0

function progress(summary: Summary, total: number): void {
  const { isTTY } = process.stderr
  const now = performance.now()
  if (now - lastProgressAt < (isTTY ? 200 : 15_000)) return
  lastProgressAt = now
  const line =
    `${summary.seeds}/${total} seeds  ${summary.virtualHours.toFixed(2)} virtual hours  ` +
    `${summary.sums.leases} leases  ${summary.failed.length} with violations`
  process.stderr.write(isTTY ? `\r${line}` : `${line}\n`)
}

// Refusals are errors by the thousand, and nobody reads where they were made.
Error.stackTraceLimit = 0
if (process.send === undefined) process.exitCode = await main()
else work()
