/** What the dashboard costs; `--help` says more. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { aboveZero, flag, integer, readOptions } from '../scripts/read-options.ts'
import { Redlock, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { quantiles } from './statistics.ts'

const USAGE = `What the dashboard costs while leases churn: response times of the page, of its data and of a worker's
/metrics, and the share of one core that the dashboard's process uses, for one viewer and for ten.

  npm run bench:dashboard -- [options]

  --leases N   how many (default 1000)
  --seconds N  for each number of viewers (default 20)
  --json       one JSON object for each number of viewers

A \`work\` process holds the leases: half of them are kept and extended, the others are given back after a
random while and taken again. The dashboard is another process. Both are compiled, as they are published.
\`bare\` is a server that answers two letters: what this machine makes of a request while it does all that.
Exit code: 0 measured, 2 bad arguments.`

const {
  leases: size,
  seconds,
  json,
} = readOptions(USAGE, {
  leases: integer(1_000),
  seconds: aboveZero(20),
  json: flag,
})
const CLI = 'dist/cli.js'
/** `/proc` counts in these: USER_HZ is 100 on every Linux. */
const TICK_MS = 10
const PAUSE_MS = 50
/**
 * A process compiles what it does often: its first looks cost more than those of the hours that
 * follow.
 */
const WARM_UP_MS = 15_000

interface Child {
  readonly process: ChildProcess
  readonly base: string
}

/** A command that says where it serves. */
async function serving(args: readonly string[], pattern: RegExp): Promise<Child> {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: {
      ...process.env,
      BULLMQ_REDLOCK_MASTERS: fleet.urls.join(','),
      BULLMQ_REDLOCK_QUEUE: fleet.queue.url,
      NODE_OPTIONS: '--import tsx', // For the worker's module.
      LEASES: String(size),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  for await (const line of createInterface({ input: child.stderr })) {
    const base = pattern.exec(line)?.[1]
    if (base !== undefined) return { process: child, base }
  }
  throw new Error(`${args.join(' ')} ended before it served`)
}

function cpuMs({ process: { pid } }: Child): number {
  const fields =
    readFileSync(`/proc/${pid ?? 0}/stat`, 'utf8')
      .split(') ')[1]
      ?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

/** Answers `ok` to everything. */
async function bareServer(): Promise<Child> {
  const code =
    "const s = require('http').createServer((q, r) => r.end('ok')).listen(0, '127.0.0.1', () => console.log(s.address().port))"
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'ignore'] })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return { process: child, base: `http://127.0.0.1:${port.toString().trim()}` }
}

async function timed(url: string): Promise<number> {
  const startedAt = performance.now()
  const answer = await fetch(url)
  await answer.arrayBuffer()
  return performance.now() - startedAt
}

async function watch(base: string, stop: AbortSignal): Promise<number> {
  let events = 0
  try {
    const { body } = await fetch(`${base}/events`, { signal: stop })
    for await (const chunk of body ?? []) {
      events +=
        Buffer.from(chunk as Uint8Array)
          .toString()
          .split('event: state').length - 1
    }
  } catch {
    // Ended by the signal.
  }
  return events
}

function percentiles(times: readonly number[]): Record<string, number> {
  const { p50, p95, p99 } = quantiles(times)
  const shown = (ms: number): number => Number(ms.toFixed(1))
  return { requests: times.length, p50: shown(p50), p95: shown(p95), p99: shown(p99) }
}

async function leasesSeen(): Promise<number> {
  const state = (await (await fetch(`${dashboard.base}/state`)).json()) as {
    leases: { matching: number }
  }
  return state.leases.matching
}

async function round(viewers: number): Promise<object> {
  const over = new AbortController()
  const watching = Array.from({ length: viewers }, () => watch(dashboard.base, over.signal))
  await pause(2_000) // The first looks connect.
  // The cost of watching alone, before this bench's own requests.
  const cpuBefore = cpuMs(dashboard)
  const workerBefore = cpuMs(worker)
  const measuredFrom = performance.now()
  await pause((seconds * 1_000) / 2)
  const share = (cpuMs(dashboard) - cpuBefore) / (performance.now() - measuredFrom)
  const workerShare = (cpuMs(worker) - workerBefore) / (performance.now() - measuredFrom)
  const times: Record<'bare' | '/' | '/state' | '/metrics', number[]> = {
    bare: [],
    '/': [],
    '/state': [],
    '/metrics': [],
  }
  const until = performance.now() + (seconds * 1_000) / 2
  while (performance.now() < until) {
    times.bare.push(await timed(bare.base))
    times['/'].push(await timed(`${dashboard.base}/`))
    times['/state'].push(await timed(`${dashboard.base}/state`))
    times['/metrics'].push(await timed(`${worker.base}/metrics`))
    await pause(PAUSE_MS)
  }
  over.abort()
  const events = (await Promise.all(watching)).reduce((sum, each) => sum + each, 0)
  return {
    ...{ viewers, events, leasesSeen: await leasesSeen() },
    shareOfOneCore: Number(share.toFixed(3)),
    shareOfTheWorker: Number(workerShare.toFixed(3)),
    bare: percentiles(times.bare),
    page: percentiles(times['/']),
    state: percentiles(times['/state']),
    metrics: percentiles(times['/metrics']),
  }
}

await using fleet = await startFleet({ masters: 5 })
const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
await redlock.close()
const dashboard = await serving(
  ['dashboard', '--port', '0', '--limit', String(2 * size)],
  /dashboard at (http:\/\/[\d.:]+)\//,
)
const worker = await serving(
  ['work', 'bench/dashboard-child.ts', '--health-port', '0', '--health-host', '127.0.0.1'],
  /metrics at (http:\/\/[\d.:]+)\/metrics/,
)
const bare = await bareServer()
// The burst at the start is not what is measured.
while ((await leasesSeen()) < size) await pause(1_000)
try {
  await watch(dashboard.base, AbortSignal.timeout(WARM_UP_MS))
  for (const viewers of [1, 10]) {
    const figures = await round(viewers)
    console.log(json ? JSON.stringify(figures) : figures)
  }
} finally {
  for (const child of [dashboard, worker, bare]) {
    child.process.kill('SIGTERM')
    await once(child.process, 'close')
  }
}
