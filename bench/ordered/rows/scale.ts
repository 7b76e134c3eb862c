/**
 * One queue over several servers: what the busiest of them spends. All servers of a queue share one
 * core, and everything else has the other ones, so only processor time is compared.
 */
import { execFile } from 'node:child_process'
import { cpus } from 'node:os'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { findProgram } from '../../../scripts/find-program.ts'
import { startCluster } from '../../../test/support/redis-cluster.ts'
import type { TestServer } from '../../../src/testing/index.ts'
import { inTurns, newQueueName } from '../../coordination/harness.ts'
import { judge } from '../../coordination/judge.ts'
import { WorkerProcesses } from '../../coordination/worker-processes.ts'
import { number, shown } from '../../format.ts'
import type { Figure, Measured, Table } from '../../measured.ts'
import { takeTurns, type Rounds } from '../../rounds.ts'
import { spread, sum } from '../../statistics.ts'
import { PROCESSES, type OrderedHarness, type Row } from '../harness.ts'

const SHARDS = [1, 2, 4, 8] as const
const KEYS = 1_000
const EACH = 20
const CONCURRENCY = 100
const MUST = 3.2
const QUEUE_CORE = '0'
const HOST = '127.0.0.1'

interface Sample {
  readonly jobs: number
  readonly tookMs: number
  /** Of each server, for adding and running. */
  readonly cpuMs: readonly number[]
  /** Jobs out of order, and two of a key at once. */
  readonly wrong: number
}

/** A cluster with a node for each shard. */
class Nodes implements AsyncDisposable {
  readonly shards: number
  readonly #servers: readonly TestServer[]
  readonly #clients: readonly Redis[]

  static async start(shards: number): Promise<Nodes> {
    const nodes = new Nodes(shards, await startCluster({ masters: shards }))
    // A node that has met no other one does not know its own address.
    await Promise.all(
      nodes.#clients.map((redis) => redis.config('SET', 'cluster-announce-ip', HOST)),
    )
    for (const info of await nodes.#infos('server')) {
      await pin(QUEUE_CORE, Number(/process_id:(\d+)/.exec(info)?.[1]))
    }
    return nodes
  }

  private constructor(shards: number, servers: readonly TestServer[]) {
    this.shards = shards
    this.#servers = servers
    this.#clients = servers.map(({ url }) => new Redis(url, { maxRetriesPerRequest: null }))
  }

  get connection(): { readonly host: string; readonly port: number } {
    const [first] = this.#servers
    if (first === undefined) throw new Error('A cluster has a node')
    return { host: first.host, port: first.port }
  }

  async cpuMs(): Promise<readonly number[]> {
    return (await this.#infos('cpu')).map(
      (info) =>
        1_000 *
        sum(
          ['user', 'sys'].map((kind) =>
            Number(new RegExp(`used_cpu_${kind}:([\\d.]+)`).exec(info)?.[1]),
          ),
        ),
    )
  }

  async clear(): Promise<void> {
    await Promise.all(this.#clients.map((redis) => redis.flushall()))
  }

  #infos(section: string): Promise<readonly string[]> {
    return Promise.all(this.#clients.map((redis) => redis.info(section)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const redis of this.#clients) redis.disconnect()
    await Promise.all(this.#servers.map((server) => server.close()))
  }
}

const busiestMs = ({ cpuMs }: Sample): number => Math.max(...cpuMs)
const perCpuSecond = (sample: Sample): number => (sample.jobs / busiestMs(sample)) * 1_000
const usPerJob = ({ cpuMs, jobs }: Sample): number => (sum(cpuMs) * 1_000) / jobs
const perSecond = ({ jobs, tookMs }: Sample): number => (jobs / tookMs) * 1_000
const busy = ({ cpuMs, tookMs }: Sample): number => (sum(cpuMs) / tookMs) * 100

export const scale: Row = {
  name: 'scale',
  load: `\`ShardedQueue\` on a Redis Cluster with a node for each shard; ${number(KEYS * EACH)} jobs that do nothing over ${number(KEYS)} keys, added and run, ${PROCESSES} processes × ${CONCURRENCY} slots. All nodes are pinned to one core, and all else to the others.`,
  async run(harness) {
    const { effort } = harness
    const kind = { file: '../ordered/sharded-child.ts' }
    await using workers = await WorkerProcesses.start(PROCESSES, kind)
    const clusters: Nodes[] = []
    try {
      for (const shards of effort.some(SHARDS)) clusters.push(await Nodes.start(shards))
      return await compare(harness, workers, clusters)
    } finally {
      await Promise.all(clusters.map((nodes) => nodes[Symbol.asyncDispose]()))
    }
  },
}

async function compare(
  harness: OrderedHarness,
  workers: WorkerProcesses,
  clusters: readonly Nodes[],
): Promise<Measured> {
  const others = cpus().length === 1 ? QUEUE_CORE : `1-${cpus().length - 1}`
  for (const pid of await outside(harness, workers)) await pin(others, pid)
  const rounds = await takeTurns(clusters, { ...harness.effort, warmUps: 1 }, (nodes, round) => {
    harness.say(`scale: ${nodes.shards} shards, round ${round + 1}`)
    return measure(harness, workers, nodes)
  })
  const wrong = sum(clusters.flatMap((nodes) => rounds.values(nodes, (one) => one.wrong)))
  return {
    tables: [tableOf(rounds)],
    figures: figuresOf(rounds),
    wrong: wrong > 0 ? [`scale: ${wrong} jobs out of order or at once`] : [],
    samples: Object.fromEntries(clusters.map((nodes) => [nodes.shards, rounds.of(nodes)])),
  }
}

async function measure(
  { runs, effort }: OrderedHarness,
  workers: WorkerProcesses,
  nodes: Nodes,
): Promise<Sample> {
  const jobs = inTurns(KEYS, effort.upTo(EACH, 1), 0)
  const base = runs.orders('strict', newQueueName(), CONCURRENCY)
  const orders = { ...base, connection: nodes.connection, shards: nodes.shards }
  const before = await nodes.cpuMs()
  const startedAt = performance.now()
  await workers.one.add(orders, jobs)
  await workers.work(orders)
  await workers.completed(jobs.length)
  const tookMs = performance.now() - startedAt
  const after = await nodes.cpuMs()
  const { inversions, overlaps } = judge((await workers.stop()).runs)
  await nodes.clear()
  const cpuMs = after.map((ms, index) => ms - (before[index] ?? 0))
  return { jobs: jobs.length, tookMs, cpuMs, wrong: inversions + overlaps }
}

/** The processes of everything but the queue's servers. */
async function outside(
  { runs }: OrderedHarness,
  workers: WorkerProcesses,
): Promise<readonly number[]> {
  const infos = await Promise.all(
    runs.fleet.urls.map(async (url) => {
      const redis = new Redis(url)
      const info = await redis.info('server')
      redis.disconnect()
      return Number(/process_id:(\d+)/.exec(info)?.[1])
    }),
  )
  return [process.pid, ...infos, ...workers.all.map(({ pid }) => pid)]
}

async function pin(cores: string, pid: number): Promise<void> {
  const program = findProgram('taskset')
  if (program === undefined) throw new Error('taskset is not installed: apt-get install util-linux')
  await promisify(execFile)(program, ['-acp', cores, `${pid}`])
}

function tableOf(rounds: Rounds<Nodes, Sample>): Table {
  const columns = [usPerJob, perCpuSecond, perSecond, busy]
  const [one] = rounds.contenders
  return {
    title: 'Shards, each on a node of its own',
    head: [
      ...['shards', "CPU of all the queue's servers a job, µs"],
      ...[
        'jobs per CPU-second of the busiest',
        'of 1 shard',
        'jobs/s here',
        "queue's core, % busy",
      ],
    ],
    rows: rounds.contenders.map((nodes) => {
      const cells = columns.map((of) => shown(spread(rounds.values(nodes, of))))
      const ratio = one === undefined ? '' : shown(ratioOf(rounds, nodes, one))
      return [`${nodes.shards}`, ...cells.slice(0, 2), ratio, ...cells.slice(2)]
    }),
  }
}

function ratioOf(rounds: Rounds<Nodes, Sample>, nodes: Nodes, one: Nodes): Figure['measured'] {
  return rounds.compared(nodes, one, (many, single) => perCpuSecond(many) / perCpuSecond(single))
}

function figuresOf(rounds: Rounds<Nodes, Sample>): readonly Figure[] {
  const [one] = rounds.contenders
  const four = rounds.contenders.find(({ shards }) => shards === 4)
  if (one === undefined || four === undefined) return []
  return [
    {
      name: 'Jobs per CPU-second of the busiest server, 4 nodes of 1',
      ...{ atLeast: MUST, measured: ratioOf(rounds, four, one), unit: 'x' },
    },
  ]
}
