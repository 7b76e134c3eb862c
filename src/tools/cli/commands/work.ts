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
import { atMostOnceASecond, healthPages, voteCount, type VoteCount } from '../work/health.ts'
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
  run: (cli, modules: readonly string[], flags: WorkFlags) => new Work(cli, flags).run(modules),
}

/** A probe of an orchestrator waits for a second or two, also where a server hangs. */
const SERVER_TIMEOUT_MS = 400
const SERVICE_TIMEOUT_MS = 900

class Work {
  readonly #cli: Cli
  readonly #flags: WorkFlags
  /** Of the modules that have loaded. */
  readonly #workers: RunnableWorker[] = []
  /** Aborts where a worker's own settings are wrong. */
  readonly #refused = new AbortController()
  #locks: LockClient | undefined

  constructor(cli: Cli, flags: WorkFlags) {
    this.#cli = cli
    this.#flags = flags
  }

  async run(modules: readonly string[]): Promise<ExitCode> {
    const { out, signal } = this.#cli
    const { drainMs } = this.#flags
    const stopped = Promise.race([aborted(signal), aborted(this.#refused.signal)])
    // A module may take as long as it likes to start.
    const starting = this.#start(modules)
    try {
      await Promise.race([starting.then(() => stopped), stopped])
    } catch (error) {
      // Those that run already would tell of what is closed after this command.
      await this.#drain(0)
      throw error
    }
    if (this.#refused.signal.aborted) {
      await this.#drain(0)
      return EXIT.attention
    }
    out.note(`${String(signal.reason)}: finishes running jobs for at most ${drainMs} ms`, {
      ...{ event: 'draining', signal: String(signal.reason), drainMs },
    })
    const drained = await this.#drain(drainMs)
    out.note(drained ? 'drained' : 'some workers did not end in time', { event: 'ended', drained })
    if (!drained) return EXIT.attention
    return signal.reason === 'SIGINT' ? EXIT.interrupted : EXIT.done
  }

  async #start(modules: readonly string[]): Promise<void> {
    const cli = this.#cli
    const { out, signal } = cli
    const metrics = await this.#metrics()
    const { maxLeaseMs } = cli.settings
    this.#locks = await cli.locks(maxLeaseMs === undefined ? {} : { maxLeaseMs })
    const context = await this.#context()
    for (const module of modules) {
      signal.throwIfAborted()
      this.#workers.push(...(await loadWorkers(module, context)))
    }
    signal.throwIfAborted()
    for (const worker of this.#workers) {
      const onError = reporter(cli, worker, this.#refused)
      // Without a listener an error would end the process; the worker itself tries again.
      worker.on('error', onError)
      if (!worker.isRunning()) worker.run().catch(onError)
    }
    if (metrics !== undefined) await this.#serveHealth(metrics)
    const queues = this.#workers.map(({ name }) => name)
    out.note(`works on ${queues.join(', ')}`, { event: 'working', queues, pid: process.pid })
  }

  /** @throws UsageError where metrics were asked for and cannot be served. */
  async #metrics(): Promise<Metrics | undefined> {
    const { healthPort, metrics } = this.#flags
    if (healthPort === undefined) {
      if (metrics) throw new UsageError('--metrics needs --health-port <n>, where they are served')
      return undefined
    }
    const opened = this.#cli.closes(await openMetrics())
    if (metrics && opened.problem !== undefined) throw new UsageError(opened.problem)
    return opened
  }

  /** A module that makes its own Redlock needs no masters on the command line. */
  async #context(): Promise<WorkerContext> {
    const cli = this.#cli
    const { settings, signal } = cli
    const { masters, namespace, prefix, queueRedis } = settings
    const maxLeaseMs = masters.length === 0 ? undefined : await cli.maxLeaseMs()
    const server = cli.queue()?.server
    const cluster = queueRedis && server && (await clusterAt(queueRedis, server))
    if (cluster) cli.closes({ close: cluster.disconnect.bind(cluster) })
    let redlock: LockService | undefined = this.#locks
    return {
      prefix,
      signal,
      get connection() {
        return cluster || bullmqConnection(queueRedisOf(settings))
      },
      get redlock() {
        if (redlock !== undefined) return redlock
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
        return (redlock = cli.closes(new Redlock(options)))
      },
    }
  }

  async #serveHealth(metrics: Metrics): Promise<void> {
    const cli = this.#cli
    const workers = this.#workers
    const { out, signal } = cli
    const { healthPort: port = 0, healthHost: host } = this.#flags
    const timeoutMs = Math.min(cli.settings.timeoutMs, SERVER_TIMEOUT_MS)
    const queue = cli.queue(timeoutMs)?.server
    // A worker may have its own prefix, and each of its shards has one.
    const parts = workers.flatMap((worker) => worker.shards ?? [worker])
    const keys = parts.flatMap((part) => part.getBackend?.().toKey('meta') ?? [])
    const asksQueue = queue && (() => Promise.all(keys.map((key) => takesWrites(queue, key))))
    const votes = atMostOnceASecond(this.#votes(timeoutMs))
    const pages = new Map(healthPages({ workers, signal, votes, asksQueue }))
    pages.set('/metrics', () => metrics.page())
    const flag = '--health-port'
    const server = cli.closes(await listen(pageServer(pages), { host, port, flag }))
    const at = `http://${host}:${server.port}`
    const { problem } = metrics
    const served = problem === undefined ? `metrics at ${at}/metrics` : `no metrics: ${problem}`
    out.note(`health at ${at}/healthz and ${at}/readyz, ${served}`, {
      ...{ event: 'health', port: server.port, metrics: problem ?? `${at}/metrics` },
    })
  }

  /** How the masters, or what is there in their place, are asked. */
  #votes(timeoutMs: number): () => Promise<VoteCount> {
    const locks = this.#locks
    if (locks !== undefined) {
      return async () => {
        const answer = await withinMs(systemClock, SERVICE_TIMEOUT_MS, diagnoseService(locks))
        const problem = `${serviceName(locks)} does not answer`
        return answer === undefined ? { voting: 0, quorum: 1, problem } : voteCount(answer)
      }
    }
    const { masters, previousMasters } = this.#cli.settings
    if (masters.length === 0) return () => this.#votesOfModules()
    const fleets = [masters, previousMasters]
      .filter(({ length }) => length > 0)
      .map((list) => fleetView(this.#cli.fleet(timeoutMs, list)))
    return async () => {
      const counted = fleets.map(async (fleet) => voteCount(await fleet.diagnose()))
      const [now, before] = (await Promise.all(counted)) as [VoteCount, VoteCount?]
      // Until a resize, workers use the fleet before it.
      return [now, before].find((one) => one && one.voting >= one.quorum) ?? now
    }
  }

  /** Only they know the masters: their workers ask them, for a resource that is no job's. */
  async #votesOfModules(): Promise<VoteCount> {
    const asked = this.#workers.map(
      async (worker) => (await worker.inspect?.('readyz'))?.lease?.ungranted,
    )
    const late = ['the servers of a module do not answer']
    const answer = await withinMs(systemClock, SERVICE_TIMEOUT_MS, Promise.all(asked)).catch(
      (error: unknown) => [messageOf(error)],
    )
    const problem = (answer ?? late).find((one) => one !== undefined)
    return { voting: problem === undefined ? 1 : 0, quorum: 1, problem }
  }

  /** False when a processor does not listen to its signal. */
  async #drain(drainMs: number): Promise<boolean> {
    const ended = Promise.all(this.#workers.map((worker) => worker.drain({ timeoutMs: drainMs })))
    const all = await withinMs(systemClock, drainMs + CLOSE_GRACE_MS, ended)
    return all?.every(Boolean) ?? false
  }
}
