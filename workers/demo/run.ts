/** One run: enqueue the strikes, let the workers run, inject the faults, wait, and take stock. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { JobType } from 'bullmq'
import { verifyHistoryFiles } from '../../src/testing/index.ts'
import { takeDirectory } from '../../src/testing/reaper.ts'
import { seededRandom } from '../seeded-random.ts'
import type { Closing } from './stopping.ts'
import { readStrikes, REAL_STRIKES } from '../strikes-file.ts'
import { WorkerProcesses } from './worker-processes.ts'
import { freezeWorker, killWorker, loseServer, type Fault, type Stage } from './faults.ts'
import type { Plan } from './options.ts'
import type { Outcome } from './outcome.ts'
import type { Progress } from './progress.ts'
import { QUEUE, startServers, type Servers } from './servers.ts'

const WORKER_START_LIMIT_MS = 60_000
const POLL_MS = 100
const UNFINISHED: readonly JobType[] = ['wait', 'prioritized', 'delayed', 'active']
/** The first faults strike when this share of the jobs is done, the freeze when that share is. */
const FIRST_FAULTS_AT = 0.35
const FREEZE_AT = 0.55

export async function runDemo(
  plan: Plan,
  progress: Progress,
  closing: Closing,
  signal: AbortSignal,
): Promise<Outcome> {
  const startedAt = performance.now()
  const elapsedMs = (): number => performance.now() - startedAt
  const say = (what: string): void => {
    if (!signal.aborted) progress.event(elapsedMs(), what)
  }
  const strikes = (await readStrikes(REAL_STRIKES)).slice(0, plan.jobs)
  const servers = await startServers(plan, closing, say)
  signal.throwIfAborted()
  const directory = takeDirectory('lease-logs')
  closing.add(() => directory.release())
  const leaseLogs = directory.path
  const workers = await startWorkers(plan, servers, leaseLogs, closing, signal)
  const counts = countReports(workers)

  const operators = new Set(strikes.map(({ customer }) => customer)).size
  say(
    `${strikes.length} strikes of ${operators} operators; ${plan.workers} workers with ${plan.concurrency} jobs each`,
  )
  await servers.queue.addBulk(
    strikes.map((data) => ({
      name: 'post',
      data,
      opts: { jobId: data.id, attempts: 5, backoff: { type: 'exponential', delay: 100 } },
    })),
  )
  const stage: Stage = {
    ...{ plan, workers, signal, elapsedMs, say },
    locks: servers.locks,
    random: seededRandom(plan.seed),
    done: () => counts.finished,
  }
  const [faults] = await Promise.all([
    runFaults(stage, strikes.length),
    untilDone(stage, servers, strikes.length, progress),
  ])
  // A worker that has not started has no log.
  const logs = (await readdir(leaseLogs)).map((name) => join(leaseLogs, name))
  const [audit, leases, jobsDone, jobsFailed] = await Promise.all([
    servers.ledger.audit(strikes.map(({ id }) => id)),
    verifyHistoryFiles(logs),
    servers.queue.getCompletedCount(),
    servers.queue.getFailedCount(),
  ])
  const { leasesLost, requeues } = counts
  return {
    ...{ seed: plan.seed, without: plan.without, jobsIn: strikes.length, jobsDone, jobsFailed },
    ...{ audit, leases, leasesLost, requeues, faults, elapsedMs: elapsedMs() },
  }
}

async function startWorkers(
  plan: Plan,
  { locks, queueUrl, databaseUrl }: Servers,
  leaseLogs: string,
  closing: Closing,
  signal: AbortSignal,
): Promise<WorkerProcesses> {
  const { leaseMs, maxLeaseMs, concurrency, workMs, without } = plan
  const workers = new WorkerProcesses({
    ...{ queue: QUEUE, queueUrl, masters: locks.masters, locks: locks.address, databaseUrl },
    ...{ leaseMs, maxLeaseMs, concurrency, workMs, without, leaseLogs },
  })
  closing.add(() => workers.close(signal.aborted ? 'kill' : 'stop'))
  const members = Array.from({ length: plan.workers }, () => workers.add())
  await Promise.all(
    members.map((expected) =>
      workers.until(`${expected.name} ready`, WORKER_START_LIMIT_MS, signal, (report, member) =>
        member === expected && report.type === 'ready' ? report : undefined,
      ),
    ),
  )
  return workers
}

function countReports(workers: WorkerProcesses) {
  const counts = { finished: 0, leasesLost: 0, requeues: 0 }
  workers.watch(({ type }) => {
    if (type === 'finished') counts.finished += 1
    if (type === 'leaseLost') counts.leasesLost += 1
    if (type === 'requeued') counts.requeues += 1
  })
  return counts
}

async function runFaults(stage: Stage, total: number): Promise<readonly Fault[]> {
  const reached = async (share: number): Promise<void> => {
    while (stage.done() < share * total) {
      await delay(POLL_MS / 4, undefined, { signal: stage.signal })
    }
  }
  await reached(FIRST_FAULTS_AT)
  const first = Promise.all([killWorker(stage), loseServer(stage)])
  const freeze = reached(FREEZE_AT).then(() => freezeWorker(stage))
  return (await Promise.all([first, freeze])).flat().sort((a, b) => a.atMs - b.atMs)
}

/** Resolves when no job is left; shows how things stand until then. */
async function untilDone(
  stage: Stage,
  { queue, locks }: Servers,
  total: number,
  progress: Progress,
): Promise<void> {
  const { workers, signal } = stage
  for (;;) {
    const counts = await queue.getJobCounts(...UNFINISHED, 'completed', 'failed')
    const running = counts['active'] ?? 0
    const remaining = UNFINISHED.reduce((sum, type) => sum + (counts[type] ?? 0), 0)
    progress.show({
      ...{ elapsedMs: stage.elapsedMs(), total, running, waiting: remaining - running },
      done: counts['completed'] ?? 0,
      leases: workers.members.reduce((sum, { leases }) => sum + leases, 0),
      servers: locks.states(),
      workers: workers.members.map(({ name, state }) => `${name} ${state}`),
    })
    if (remaining === 0) return
    await delay(POLL_MS, undefined, { signal })
  }
}
