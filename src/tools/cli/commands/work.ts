import { DAY_MS, systemClock, withinMs } from '../../../clock.ts'
import type { LockClient } from '../../../services/lock-client.ts'
import type { LockService } from '../../../lock/lock-service.ts'
import { messageOf } from '../../../message-of.ts'
import { Redlock } from '../../../redlock/redlock.ts'
import { diagnoseService, fleetView, serviceName } from '../../operator/lock-view.ts'
import { clusterAt, takesWrites } from '../../operator/queue-server.ts'
import { bullmqConnection } from '../../operator/queue-view.ts'
import type { Cli } from '../cli.ts'
import { EXIT, UsageError, aborted, type ExitCode } from '../exit-code.ts'
import { listen, pageServer } from '../listen.ts'
import { numberOption, type CommandSpec } from '../command.ts'
import { Option } from 'commander'
import { mastersOf, queueRedisOf } from '../settings.ts'
import {
  atMostOnceASecond,
  healthPages,
  voteCount,
  type HealthOptions,
  type VoteCount,
} from '../work/health.ts'
import { openMetrics, type Metrics } from '../work/metrics.ts'
import type { WorkerContext } from '../../../worker/worker-context.ts'
import { loadWorkers, type RunnableWorker } from '../work/load-workers.ts'
import { reporter } from '../work/reporter.ts'

interface WorkFlags {
  readonly drainMs: number
  readonly healthPort?: number
  readonly healthHost: string
  readonly metrics?: true
}

/** On top of the limit: aborted jobs are given back to the queue, and connections closed. */
const CLOSE_GRACE_MS = 10_000

export const work: CommandSpec = {
  usage: 'work <modules...>',
  summary: 'run worker modules until told to stop',
  description:
    'Imports modules that export (as default, worker or workers) a LockedWorker, a list of them, or a function ({ redlock, connection, ' +
    'prefix, signal }) => worker, and runs them. On SIGTERM or SIGINT, running jobs may finish for --drain-ms, and are then requeued; ' +
    'a second signal ends the process at once.',
  examples: ['work dist/workers/invoices.js --health-port 8080', 'work a.js b.js --drain-ms 60000'],
  options: [
    numberOption('--drain-ms <n>', 'how long running jobs may take to end', [0, DAY_MS], 30_000),
    numberOption(
      '--health-port <n>',
      'of /healthz, /readyz, /metrics; 0 is a free one',
      [0, 65_535],
    ),
    new Option('--health-host <address>', 'where it listens').default('0.0.0.0'),
    new Option('--metrics', 'ends at once if /metrics cannot be served'),
  ],
  graceful: true,
  foreignCode: true,
  run,
}

async function run(cli: Cli, modules: readonly string[], flags: WorkFlags): Promise<ExitCode> {
  const { out, signal } = cli
  const { drainMs } = flags
  const workers: RunnableWorker[] = []
  const refused = new AbortController()
  const stopped = Promise.race([aborted(signal), aborted(refused.signal)])
  // A module may take as long as it likes to start.
  const starting = start(cli, modules, flags, workers, refused)
  try {
    await Promise.race([starting.then(() => stopped), stopped])
  } catch (error) {
    // Those that run already would tell of what is closed after this command.
    await drain(workers, 0)
    throw error
  }
  if (refused.signal.aborted) {
    await drain(workers, 0)
    return EXIT.attention
  }
  out.note(`${String(signal.reason)}: finishes running jobs for at most ${drainMs} ms`, {
    ...{ event: 'draining', signal: String(signal.reason), drainMs },
  })
  const drained = await drain(workers, drainMs)
  out.note(drained ? 'drained' : 'some workers did not end in time', { event: 'ended', drained })
  if (!drained) return EXIT.attention
  return signal.reason === 'SIGINT' ? EXIT.interrupted : EXIT.done
}

/** Fills `workers` as the modules load, and runs them when all have. */
async function start(
  cli: Cli,
  modules: readonly string[],
  flags: WorkFlags,
  workers: RunnableWorker[],
  refused: AbortController,
): Promise<void> {
  const { out, signal } = cli
  const metrics = await metricsFor(flags)
  if (metrics !== undefined) cli.closes(metrics)
  const { maxLeaseMs } = cli.settings
  const locks = await cli.locks(maxLeaseMs === undefined ? {} : { maxLeaseMs })
  const context = await contextFor(cli, locks)
  for (const module of modules) {
    signal.throwIfAborted()
    workers.push(...(await loadWorkers(module, context)))
  }
  signal.throwIfAborted()
  for (const worker of workers) {
    const onError = reporter(cli, worker, refused)
    // Without a listener an error would end the process; the worker itself tries again.
    worker.on('error', onError)
    if (!worker.isRunning()) worker.run().catch(onError)
  }
  if (metrics !== undefined) await serveHealth(cli, workers, metrics, locks, flags)
  const queues = workers.map(({ name }) => name)
  out.note(`works on ${queues.join(', ')}`, { event: 'working', queues, pid: process.pid })
}

/** @throws UsageError where metrics were asked for and cannot be served. */
async function metricsFor({ healthPort, metrics }: WorkFlags): Promise<Metrics | undefined> {
  if (healthPort === undefined) {
    if (metrics) throw new UsageError('--metrics needs --health-port <n>, where they are served')
    return undefined
  }
  const opened = await openMetrics()
  if (metrics && opened.problem !== undefined) throw new UsageError(opened.problem)
  return opened
}

/** A module that makes its own Redlock needs no masters on the command line. */
async function contextFor(cli: Cli, locks: LockClient | undefined): Promise<WorkerContext> {
  const { settings, signal } = cli
  const { masters, namespace, prefix, queueRedis } = settings
  const maxLeaseMs = masters.length === 0 ? undefined : await cli.maxLeaseMs()
  const server = cli.queue()?.server
  const cluster = queueRedis && server && (await clusterAt(queueRedis, server))
  if (cluster) cli.closes({ close: cluster.disconnect.bind(cluster) })
  let redlock: LockService | undefined = locks
  return {
    prefix,
    signal,
    get connection() {
      return cluster || bullmqConnection(queueRedisOf(settings))
    },
    get redlock() {
      if (redlock === undefined) {
        const { previousMasters, previousMaxLeaseMs } = settings
        const previous = {
          ...(previousMasters.length > 0 && { masters: previousMasters }),
          ...(previousMaxLeaseMs !== undefined && { maxLeaseMs: previousMaxLeaseMs }),
        }
        const options = {
          ...{ masters: mastersOf(settings), namespace },
          ...(maxLeaseMs !== undefined && { maxLeaseMs }),
          ...(Object.keys(previous).length > 0 && { previous }),
        }
        redlock = cli.closes(new Redlock(options))
      }
      return redlock
    },
  }
}

async function serveHealth(
  cli: Cli,
  workers: readonly RunnableWorker[],
  metrics: Metrics,
  locks: LockClient | undefined,
  { healthPort: port = 0, healthHost: host }: WorkFlags,
): Promise<void> {
  const { out, signal } = cli
  const timeoutMs = Math.min(cli.settings.timeoutMs, SERVER_TIMEOUT_MS)
  const queue = cli.queue(timeoutMs)?.server
  // A worker may have its own prefix, and each of its shards has one.
  const parts = workers.flatMap((worker) => worker.shards ?? [worker])
  const keys = parts.flatMap((part) => part.getBackend?.().toKey('meta') ?? [])
  const asksQueue = queue && (() => Promise.all(keys.map((key) => takesWrites(queue, key))))
  const asksMasters = atMostOnceASecond(votesOf(cli, locks, workers, timeoutMs))
  const pages = new Map(healthPages({ workers, signal, votes: asksMasters, asksQueue }))
  pages.set('/metrics', () => metrics.page())
  const server = cli.closes(await listen(pageServer(pages), { host, port, flag: '--health-port' }))
  const at = `http://${host}:${server.port}`
  const { problem } = metrics
  const served = problem === undefined ? `metrics at ${at}/metrics` : `no metrics: ${problem}`
  out.note(`health at ${at}/healthz and ${at}/readyz, ${served}`, {
    ...{ event: 'health', port: server.port, metrics: problem ?? `${at}/metrics` },
  })
}

/** A probe of an orchestrator waits for a second or two, also where a server hangs. */
const SERVER_TIMEOUT_MS = 400
const SERVICE_TIMEOUT_MS = 900

function votesOf(
  cli: Cli,
  locks: LockClient | undefined,
  workers: readonly RunnableWorker[],
  timeoutMs: number,
): HealthOptions['votes'] {
  if (locks !== undefined) {
    return async () => {
      const answer = await withinMs(systemClock, SERVICE_TIMEOUT_MS, diagnoseService(locks))
      const problem = `${serviceName(locks)} does not answer`
      return answer === undefined ? { voting: 0, quorum: 1, problem } : voteCount(answer)
    }
  }
  const { masters, previousMasters } = cli.settings
  if (masters.length === 0) return () => votesFor(workers)
  const fleets = [masters, previousMasters]
    .filter(({ length }) => length > 0)
    .map((list) => fleetView(cli.fleet(timeoutMs, list)))
  return async () => {
    const counted = fleets.map(async (fleet) => voteCount(await fleet.diagnose()))
    const [now, before] = (await Promise.all(counted)) as [VoteCount, VoteCount?]
    // Until a resize, workers use the fleet before it.
    return [now, before].find((one) => one && one.voting >= one.quorum) ?? now
  }
}

/** Only the modules know the masters: their workers ask them, for a resource that is no job's. */
async function votesFor(workers: readonly RunnableWorker[]): Promise<VoteCount> {
  const asked = workers.map(async (worker) => (await worker.inspect?.('readyz'))?.lease?.ungranted)
  const late = ['the servers of a module do not answer']
  const answer = await withinMs(systemClock, SERVICE_TIMEOUT_MS, Promise.all(asked)).catch(
    (error: unknown) => [messageOf(error)],
  )
  const problem = (answer ?? late).find((one) => one !== undefined)
  return { voting: problem === undefined ? 1 : 0, quorum: 1, problem }
}

/** False when a processor does not listen to its signal. */
async function drain(workers: readonly RunnableWorker[], drainMs: number): Promise<boolean> {
  const ended = Promise.all(workers.map((worker) => worker.drain({ timeoutMs: drainMs })))
  const all = await withinMs(systemClock, drainMs + CLOSE_GRACE_MS, ended)
  return all?.every(Boolean) ?? false
}
