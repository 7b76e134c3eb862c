/** The command line of the soak; `--help` says what it takes. */
import { setTimeout as delay } from 'node:timers/promises'
import { KINDS, LOCK_SERVERS } from '../../scripts/lock-servers/lock-servers.ts'
import { provisionServer } from '../../scripts/provision-server.ts'
import { aboveZero, flag, integer, oneOf, readOptions, refuse } from '../../scripts/read-options.ts'
import { compileShim } from '../faults/shimmed-clock.ts'
import { leaseAnomalies } from '../faults/lease-logs.ts'
import { compilePrograms } from '../support/programs.ts'
import { ClusterWorld } from './cluster-world.ts'
import { runHistories } from './histories.ts'
import { MastersWorld } from './masters-world.ts'
import { Nemesis } from './nemesis.ts'
import { printReport, type Report } from './report.ts'
import type { World } from './world.ts'

const USAGE = `Everything that can be made to fail, at random and for a long time; then quiet, and the verdict.

  npm run soak -- [options]

  --minutes M      how long (default 1)
  --seed S         of the chance
  --locks NAME     leases of another lock service: ${KINDS.join(', ')}
  --histories N    with --locks: N short histories, each of which is checked as a whole
  --json           one JSON object

It prints the faults by kind, the leases, and every anomaly. Exit code: 0 no anomaly, every fault that was chosen
was seen to strike, and all jobs are done; 1 otherwise, 2 bad arguments, 64 the server of --locks is not installed, 130 interrupted.`

const BATCH_MS = 1_500
const QUIET_MS = 2_000
const PROGRESS_MS = 15_000
const MIN_CHANCES = 5

const { minutes, seed, locks, histories, json } = readOptions(USAGE, {
  minutes: aboveZero(1),
  seed: integer(Math.floor(Math.random() * 1e6), 0),
  locks: oneOf(KINDS),
  histories: integer(),
  json: flag,
})
const say = (line: string): void => {
  console.error(line)
}
const obstacle = locks === undefined ? undefined : LOCK_SERVERS[locks].missing
if (obstacle !== undefined) {
  console.error(obstacle)
  process.exit(64)
}

if (histories !== undefined) {
  if (locks === undefined) refuse(USAGE, '--histories needs --locks')
  const { signal } = new AbortController()
  const found = await runHistories({ kind: locks, count: histories, seed, signal, say })
  console.log(JSON.stringify(found))
  process.exit(found.violations.length === 0 ? 0 : 1)
}

await provisionServer({ install: true, say })
const removePrograms = await compilePrograms()
say(`Soak of ${minutes} min with seed ${seed}`)

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted.abort()
  })
}
const report = await (locks === undefined
  ? soakMasters()
  : soak(await ClusterWorld.open(seed, locks)))
printReport(report, json)
await removePrograms()
// At once: Node may not let go of sockets that were reset in the middle of their end.
process.exit(interrupted.signal.aborted ? 130 : report.passed ? 0 : 1)

async function soakMasters(): Promise<Report> {
  const answer = await compileShim()
  const shim = answer.status === 'ready' ? answer.shim : undefined
  if (answer.status === 'absent') say(`Clocks are left alone: ${answer.reason}`)
  try {
    return await soak(await MastersWorld.open(seed, shim))
  } finally {
    shim?.remove()
  }
}

async function soak(opened: World): Promise<Report> {
  await using world = opened
  const { work } = world
  const startedAt = performance.now()
  // Not AbortSignal.any with AbortSignal.timeout: Node 20 may collect that pair before it fires.
  const time = new AbortController()
  const end = (): void => {
    time.abort()
  }
  const timer = setTimeout(end, minutes * 60_000)
  interrupted.signal.addEventListener('abort', end)
  const nemesis = new Nemesis(world, seed, time.signal)
  const finished = new AbortController()
  const progress = reportProgress(world, nemesis, startedAt, finished.signal)
  await Promise.all([nemesis.rage(), addJobs(world, time.signal)])
  clearTimeout(timer)
  finished.abort()
  await progress
  await world.heal()
  work.resume()
  if (!interrupted.signal.aborted) await quiet(world)
  const open = await work.open()
  if (open > 0) for (const job of await work.ledger.open()) say(job)
  const anomalies = interrupted.signal.aborted
    ? [...(await work.clients.end())]
    : [...(await world.anomalies()), ...nemesis.failures]
  anomalies.push(...(await work.leave()))
  const verdict = await work.leaseLogs.verdict()
  anomalies.push(...leaseAnomalies(verdict))
  // In a short run a rare fault may have been chosen only when nothing was in its way.
  const blind = [...nemesis.tallies]
    .filter(([, { struck, unseen }]) => struck === 0 && unseen >= MIN_CHANCES)
    .map(([name]) => name)
  const { history, ledger } = work
  return {
    seed,
    minutes,
    seconds: Math.round((performance.now() - startedAt) / 1_000),
    interrupted: interrupted.signal.aborted,
    faults: Object.fromEntries([...nemesis.tallies].sort(([a], [b]) => a.localeCompare(b))),
    struck: nemesis.struck,
    leases: verdict.leases,
    extensions: verdict.extensions,
    endings: verdict.endings,
    refusals: Object.fromEntries(history.refusals),
    writes: history.writes.length,
    staleWrites: history.staleWrites,
    jobs: { added: ledger.added, open },
    ...world.facts(),
    longestExitMs: Math.round(work.longestExitMs),
    anomalies,
    blind,
    passed:
      !interrupted.signal.aborted && anomalies.length === 0 && open === 0 && blind.length === 0,
  }
}

/** A steady stream, as long as the workers keep up. */
async function addJobs({ work, jobs }: World, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if ((await work.open()) < jobs.maxOpen) await work.ledger.add(jobs.batch)
    // The loop's condition ends it.
    await delay(BATCH_MS, undefined, { signal }).catch(() => undefined)
  }
}

/** No more faults: what was begun must come to its end. */
async function quiet(world: World): Promise<void> {
  await delay(QUIET_MS)
  const limit = performance.now() + world.drainLimitMs
  while ((await world.work.open()) > 0 || (await world.undone()) > 0) {
    if (performance.now() > limit || interrupted.signal.aborted) return
    await delay(100)
  }
}

async function reportProgress(
  { work }: World,
  nemesis: Nemesis,
  startedAt: number,
  signal: AbortSignal,
): Promise<void> {
  const { history, ledger } = work
  while (!signal.aborted) {
    // The loop's condition ends it.
    await delay(PROGRESS_MS, undefined, { signal }).catch(() => undefined)
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    say(
      `${seconds} s: ${nemesis.struck} faults, ${history.leases.size} leases, ${await ledger.completed()} of ${ledger.added} jobs done`,
    )
  }
}
