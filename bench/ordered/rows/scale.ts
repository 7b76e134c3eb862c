/**
 * One queue over several servers: what the busiest of them spends. A server that is not full spends
 * more on each job. So every server gets the same small share of one core and is full, whatever
 * their number, and everything else has the other cores.
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
import { CpuShares } from '../cpu-share.ts'
import { PROCESSES, type OrderedHarness, type Row } from '../harness.ts'

const HELD_TO = 4
/** A short run has the first two. */
const SHARDS = [1, HELD_TO, 2, 8] as const
/** For each node. */
const KEYS = 1_000
const EACH = 20
const CONCURRENCY = 50
const MUST = 3.2
const QUEUE_CORE = '0'
/** Of that core, for each node: the largest cluster fits in. */
const CORE_SHARE = 0.12
const HOST = '127.0.0.1'

interface Sample {
  readonly jobs: number
  readonly tookMs: number
  /** Of each server, for adding and running. */
  readonly cpuMs: readonly number[]
  /** Of all worker processes. */
  readonly workersMs: number
  /** Jobs out of order, and two of a key at once. */
  readonly wrong: number
}

/** A cluster with a node for each shard. */
class Nodes implements AsyncDisposable {
  readonly shards: number
  readonly #servers: readonly TestServer[]
  readonly #clients: readonly Redis[]
  readonly #cpuShares = new CpuShares()

  static async start(shards: number): Promise<Nodes> {
    const nodes = new Nodes(shards, await startCluster({ masters: shards }))
    // A node that has met no other one does not know its own address.
    await Promise.all(
      nodes.#clients.map((redis) => redis.config('SET', 'cluster-announce-ip', HOST)),
    )
    for (const info of await nodes.#infos('server')) {
      const pid = Number(/process_id:(\d+)/.exec(info)?.[1])
      await pin(QUEUE_CORE, pid)
      nodes.#cpuShares.limit(pid, CORE_SHARE)
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
    this.#cpuShares[Symbol.dispose]()
  }
}

const busiestMs = ({ cpuMs }: Sample): number => Math.max(...cpuMs)
const perCpuSecond = (sample: Sample): number => (sample.jobs / busiestMs(sample)) * 1_000
const usPerJob = ({ cpuMs, jobs }: Sample): number => (sum(cpuMs) * 1_000) / jobs
const workersUs = ({ workersMs, jobs }: Sample): number => (workersMs * 1_000) / jobs
const perSecond = ({ jobs, tookMs }: Sample): number => (jobs / tookMs) * 1_000
/** Of its share. */
const busy = (sample: Sample): number => (busiestMs(sample) / sample.tookMs / CORE_SHARE) * 100

export const scale: Row = {
  name: 'scale',
  load: `\`ShardedQueue\` on a Redis Cluster with a node for each shard; for each node ${number(KEYS * EACH)} jobs that do nothing over ${number(KEYS)} keys, added and run, ${PROCESSES} processes × ${CONCURRENCY} slots for each node. All nodes are pinned to one core, of which each has ${CORE_SHARE * 100} %, and all else to the others.`,
  async run(harness) {
    const { effort } = harness
    const missing = CpuShares.missing()
    if (missing !== undefined) {
      harness.say(`scale is left out: ${missing}`)
      return { tables: [], figures: [], wrong: [] }
    }
    const kind = { file: '../ordered/sharded-child.ts' }
    await using workers = await WorkerProcesses.start(PROCESSES, kind)
    const clusters: Nodes[] = []
    try {
      const sizes = effort.some(SHARDS).toSorted((a, b) => a - b)
      for (const shards of sizes) clusters.push(await Nodes.start(shards))
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
    harness.say(`scale: ${nodes.shards}, round ${round + 1}`)
    return measure(harness, workers, nodes)
  })
  const wrong = sum(clusters.flatMap((nodes) => rounds.values(nodes, (one) => one.wrong)))
  return {
    tables: [tableOf(rounds)],
    figures: figuresOf(rounds),
    wrong: wrong > 0 ? [`scale: ${wrong} jobs out of order or at once`] : [],
  }
}

async function measure(
  { runs, effort }: OrderedHarness,
  workers: WorkerProcesses,
  nodes: Nodes,
): Promise<Sample> {
  const { connection, shards } = nodes
  const jobs = inTurns(KEYS * shards, effort.upTo(EACH, 1), 0)
  const base = runs.orders('strict', newQueueName(), CONCURRENCY * shards)
  const orders = { ...base, connection, shards }
  const before = await nodes.cpuMs()
  const startedAt = performance.now()
  await workers.one.add(orders, jobs)
  await workers.work(orders)
  await workers.completed(jobs.length)
  const tookMs = performance.now() - startedAt
  const after = await nodes.cpuMs()
  const { runs: judged, cpuMs: workersMs } = await workers.stop()
  const { inversions, overlaps } = judge(judged)
  await nodes.clear()
  const cpuMs = after.map((ms, index) => ms - (before[index] ?? 0))
  return { jobs: jobs.length, tookMs, cpuMs, workersMs, wrong: inversions + overlaps }
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
  const columns = [usPerJob, perCpuSecond, workersUs, perSecond, busy]
  const [one] = rounds.contenders
  return {
    title: 'Shards, each on a node of its own',
    head: [
      ...['shards', "CPU of all the queue's servers a job, µs"],
      ...['jobs per CPU-second of the busiest', 'of 1 shard', 'CPU of the workers a job, µs'],
      ...['jobs/s here', 'busiest, % of its share'],
    ],
    rows: rounds.contenders.map((nodes) => {
      const cells = columns.map((of) => shown(spread(rounds.values(nodes, of))))
      const ratio = one && shown(rounds.compared(nodes, one, ratioOf))
      return [`${nodes.shards}`, ...cells.slice(0, 2), ratio ?? '', ...cells.slice(2)]
    }),
  }
}

function ratioOf(many: Sample, one: Sample): number {
  return perCpuSecond(many) / perCpuSecond(one)
}

function figuresOf(rounds: Rounds<Nodes, Sample>): readonly Figure[] {
  const [one] = rounds.contenders
  const held = rounds.contenders.find(({ shards }) => shards === HELD_TO)
  if (one === undefined || held === undefined) return []
  const name = `Jobs per CPU-second of the busiest server, ${HELD_TO} nodes of 1`
  return [{ name, atLeast: MUST, measured: rounds.compared(held, one, ratioOf), unit: 'x' }]
}
