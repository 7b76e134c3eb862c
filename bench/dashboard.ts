/** What the dashboard costs; `--help` says more. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { aboveZero, integer, readOptions } from '../scripts/read-options.ts'
import { Redlock, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { percentile } from './rounds.ts'

const USAGE = `What the dashboard costs while leases churn: response times of the page, of its data and of a worker's
/metrics, and the share of one core that the dashboard's process uses, for one viewer and for ten.

  npm run bench:dashboard -- [options]

  --leases N   how many (default 1000)
  --seconds N  for each number of viewers (default 20)

A \`work\` process holds the leases: half of them are kept and extended, the others are given back after a
random while and taken again. The dashboard is another process. Both are compiled, as they are published.
Exit code: 0 measured, 2 bad arguments.`

const { leases, seconds } = readOptions(USAGE, { leases: integer(1_000), seconds: aboveZero(20) })
/** `/proc` counts in these: USER_HZ is 100 on every Linux. */
const TICK_MS = 10
const PAUSE_MS = 50
/** A process compiles what it does often: its first looks cost more than those that follow. */
const WARM_UP_MS = 15_000

interface Child {
  readonly process: ChildProcess
  readonly base: string
}

/** A command that says where it serves. */
async function serving(args: readonly string[], pattern: RegExp): Promise<Child> {
  const child = spawn(process.execPath, ['dist/cli.js', ...args], {
    env: {
      ...process.env,
      BULLMQ_REDLOCK_MASTERS: fleet.urls.join(','),
      BULLMQ_REDLOCK_QUEUE: fleet.queue.url,
      NODE_OPTIONS: '--import tsx', // For the worker's module.
      LEASES: String(leases),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  for await (const line of createInterface({ input: child.stderr })) {
    const base = pattern.exec(line)?.[1]
    if (base !== undefined) return { process: child, base }
  }
  throw new Error(`${args.join(' ')} ended before it served`)
}

function cpuMs({ process: { pid = 0 } }: Child): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

async function timed(url: string): Promise<number> {
  const startedAt = performance.now()
  await (await fetch(url)).arrayBuffer()
  return performance.now() - startedAt
}

async function watch(stop: AbortSignal): Promise<void> {
  try {
    const { body } = await fetch(`${dashboard.base}/events`, { signal: stop })
    await body?.pipeTo(new WritableStream())
  } catch {
    // Ended by the signal.
  }
}

async function leasesSeen(): Promise<number> {
  const answer = await (await fetch(`${dashboard.base}/state`)).json()
  return (answer as { leases: { matching: number } }).leases.matching
}

async function round(viewers: number): Promise<void> {
  const over = new AbortController()
  const watching = Array.from({ length: viewers }, () => watch(over.signal))
  await pause(2_000) // The first looks connect.
  // The cost of watching alone, before this bench's own requests.
  const before = cpuMs(dashboard)
  const measuredFrom = performance.now()
  await pause((seconds * 1_000) / 2)
  const share = (cpuMs(dashboard) - before) / (performance.now() - measuredFrom)
  const urls = {
    page: `${dashboard.base}/`,
    state: `${dashboard.base}/state`,
    metrics: `${worker.base}/metrics`,
  }
  const times = new Map<string, number[]>(Object.keys(urls).map((name) => [name, []]))
  const until = performance.now() + (seconds * 1_000) / 2
  while (performance.now() < until) {
    for (const [name, url] of Object.entries(urls)) times.get(name)?.push(await timed(url))
    await pause(PAUSE_MS)
  }
  over.abort()
  await Promise.all(watching)
  const inMs = [...times].map(([name, all]) => {
    const [p50, p95, p99] = [0.5, 0.95, 0.99].map((part) =>
      Number(percentile(all, part).toFixed(1)),
    )
    return [name, { requests: all.length, p50, p95, p99 }]
  })
  const shareOfOneCore = Number(share.toFixed(3))
  console.log({ viewers, leases: await leasesSeen(), shareOfOneCore, ...Object.fromEntries(inMs) })
}

await using fleet = await startFleet({ masters: 5 })
const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
await redlock.close()
const dashboard = await serving(
  ['dashboard', '--port', '0', '--limit', String(2 * leases)],
  /dashboard at (http:\/\/[\d.:]+)\//,
)
const worker = await serving(
  ['work', 'bench/dashboard-child.ts', '--health-port', '0', '--health-host', '127.0.0.1'],
  /metrics at (http:\/\/[\d.:]+)\/metrics/,
)
// The burst at the start is not what is measured.
while ((await leasesSeen()) < leases) await pause(1_000)
try {
  await watch(AbortSignal.timeout(WARM_UP_MS))
  for (const viewers of [1, 10]) await round(viewers)
} finally {
  for (const child of [dashboard, worker]) {
    child.process.kill('SIGTERM')
    await once(child.process, 'close')
  }
}
