/** What the dashboard costs; `--help` says more. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { readOptions } from '../scripts/read-options.ts'
import { Redlock, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { percentile } from './rounds.ts'

const LEASES = 1_000
/** For each number of viewers. */
const MEASURED_MS = 20_000
/** `/proc` counts in these: USER_HZ is 100 on every Linux. */
const TICK_MS = 10
const PAUSE_MS = 50
/** A process compiles what it does often: its first looks cost more than those that follow. */
const WARM_UP_MS = 15_000

const USAGE = `What the dashboard costs while ${LEASES} leases churn: response times of the page, of its data and of a worker's
/metrics, and the share of one core that the dashboard's process uses, for one viewer and for ten.

  npm run bench:dashboard

A \`work\` process holds the leases: half of them are kept and extended, the others are given back after a
random while and taken again. The dashboard is another process. Both are compiled, as they are published.
Exit code: 0 measured, 2 bad arguments.`

readOptions(USAGE, {})

/** A command that says where it serves. */
async function serving(args: readonly string[], pattern: RegExp) {
  const child = spawn(process.execPath, ['dist/cli.js', ...args], {
    env: {
      ...process.env,
      BULLMQ_REDLOCK_MASTERS: fleet.urls.join(','),
      BULLMQ_REDLOCK_QUEUE: fleet.queue.url,
      NODE_OPTIONS: '--import tsx', // For the worker's module.
      LEASES: String(LEASES),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  for await (const line of createInterface({ input: child.stderr })) {
    const base = pattern.exec(line)?.[1]
    if (base !== undefined) return { process: child, base }
  }
  throw new Error(`${args.join(' ')} ended before it served`)
}

/** Of the dashboard. */
function cpuMs(): number {
  const stat = readFileSync(`/proc/${dashboard.process.pid}/stat`, 'utf8')
  const fields = stat.split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
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
  const before = cpuMs()
  const measuredFrom = performance.now()
  await pause(MEASURED_MS / 2)
  const share = (cpuMs() - before) / (performance.now() - measuredFrom)
  const requests = [
    { name: 'page', url: `${dashboard.base}/`, times: [] as number[] },
    { name: 'state', url: `${dashboard.base}/state`, times: [] as number[] },
    { name: 'metrics', url: `${worker.base}/metrics`, times: [] as number[] },
  ]
  const until = performance.now() + MEASURED_MS / 2
  while (performance.now() < until) {
    for (const { url, times } of requests) {
      const startedAt = performance.now()
      await (await fetch(url)).arrayBuffer()
      times.push(performance.now() - startedAt)
    }
    await pause(PAUSE_MS)
  }
  over.abort()
  await Promise.all(watching)
  const inMs = requests.map(({ name, times }) => {
    const ms = (part: number): number => Number(percentile(times, part).toFixed(1))
    return [name, { requests: times.length, p50: ms(0.5), p95: ms(0.95), p99: ms(0.99) }]
  })
  const shareOfOneCore = Number(share.toFixed(3))
  console.log({ viewers, leases: await leasesSeen(), shareOfOneCore, ...Object.fromEntries(inMs) })
}

await using fleet = await startFleet({ masters: 5 })
const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
await redlock.close()
const dashboard = await serving(
  ['dashboard', '--port', '0', '--limit', String(2 * LEASES)],
  /dashboard at (http:\/\/[\d.:]+)\//,
)
const worker = await serving(
  ['work', 'bench/dashboard-child.ts', '--health-port', '0', '--health-host', '127.0.0.1'],
  /metrics at (http:\/\/[\d.:]+)\/metrics/,
)
// The burst at the start is not what is measured.
while ((await leasesSeen()) < LEASES) await pause(1_000)
try {
  await watch(AbortSignal.timeout(WARM_UP_MS))
  for (const viewers of [1, 10]) await round(viewers)
} finally {
  for (const child of [dashboard, worker]) {
    child.process.kill('SIGTERM')
    await once(child.process, 'close')
  }
}
