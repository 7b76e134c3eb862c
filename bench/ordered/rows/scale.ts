/**
 * One queue over several servers: what the busiest of them spends. A server that is not full spends
 * more on each job. So every server gets the same small share of one core and is full, whatever
 * their number, and everything else has the other cores.
 */
import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { Cluster, Redis } from 'ioredis'
import { findProgram } from '../../../scripts/find-program.ts'
import { item } from '../../../test/support/proxied-masters.ts'
import { startCluster } from '../../../test/support/redis-cluster.ts'
import { ShardedQueue } from '../../built.ts'
import { inTurns, newQueueName, type Harness, type Row } from '../../coordination/harness.ts'
import { inChunks, resource, type KeyedJob } from '../../coordination/job.ts'
import { judge } from '../../coordination/judge.ts'
import { figure, none, number, shown, tableOf, type Measured } from '../../report.ts'
import { cpuMs, type Effort, type Rounds, sum, takeTurns, type Value } from '../../rounds.ts'

const HELD_TO = 4
/** A short run has the first two. */
const SHARDS = [1, HELD_TO, 2, 8]
/** For each node. */
const KEYS = 1_000
const EACH = 20
const CONCURRENCY = 50
const QUEUE_CORE = '0'
/** Of that core, for each node: the largest cluster fits in. */
const CORE_SHARE = 0.12

/** A cluster with a node for each shard. */
async function startNodes(shards: number) {
  const servers = await startCluster({ masters: shards })
  const clients = servers.map(({ url }) => new Redis(url, { maxRetriesPerRequest: null }))
  const limits: (() => void)[] = []
  for (const redis of clients) {
    // A node that has met no other one does not know its own address.
    await redis.config('SET', 'cluster-announce-ip', '127.0.0.1')
    const pid = await pidOf(redis)
    pin(QUEUE_CORE, pid)
    limits.push(limitCpu(pid, CORE_SHARE))
  }
  return {
    ...{ shards, servers, clients },
    cpuMs: async () => (await Promise.all(clients.map((redis) => redis.info('cpu')))).map(cpuMs),
    async close() {
      for (const redis of clients) redis.disconnect()
      await Promise.all(servers.map((server) => server.close()))
      for (const end of limits) end()
    },
  }
}

type Nodes = Awaited<ReturnType<typeof startNodes>>

async function pidOf(redis: Redis): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1])
}

function pin(cores: string, pid: number): void {
  const program = findProgram('taskset')
  if (program === undefined) throw new Error('taskset is not installed: apt-get install util-linux')
  execFileSync(program, ['-acp', cores, `${pid}`], { stdio: 'ignore' })
}

export const scale: Row = {
  name: 'scale',
  load: `\`ShardedQueue\` on a Redis Cluster with a node for each shard; for each node ${number(KEYS * EACH)} jobs that do nothing over ${number(KEYS)} keys, added and run, 2 processes × ${CONCURRENCY} slots for each node. All nodes are pinned to one core, of which each has ${CORE_SHARE * 100} %, and all else to the others.`,
  async run(harness, effort): Promise<Measured> {
    const missing = missingShares()
    if (missing !== undefined) {
      console.error(`scale is left out: ${missing}`)
      return { figures: [] }
    }
    const clusters: Nodes[] = []
    try {
      for (const shards of effort.some(SHARDS).toSorted((a, b) => a - b)) {
        clusters.push(await startNodes(shards))
      }
      await moveOthers(harness)
      const turns = { rounds: effort.rounds, warmUps: 1 }
      return reported(await takeTurns(clusters, turns, (nodes) => measure(harness, effort, nodes)))
    } finally {
      for (const nodes of clusters) await nodes.close()
    }
  },
}

/** Everything but the queue's servers. */
async function moveOthers({ fleet, workers }: Harness): Promise<void> {
  const others = cpus().length === 1 ? QUEUE_CORE : `1-${cpus().length - 1}`
  const masters = fleet.urls.map((url) => new Redis(url))
  for (const redis of masters) pin(others, await pidOf(redis))
  for (const redis of masters) redis.disconnect()
  for (const { pid } of [process, ...workers.all]) pin(others, pid)
}

type Sample = Awaited<ReturnType<typeof measure>>

async function measure(harness: Harness, effort: Effort, nodes: Nodes) {
  const { shards } = nodes
  console.error(`scale: ${shards}`)
  const jobs = inTurns(KEYS * shards, effort.of(EACH, 1), 0)
  const count = jobs.length
  const { workers } = harness
  const base = harness.orders('sharded', newQueueName(), CONCURRENCY * shards)
  const { host, port } = item(nodes.servers, 0)
  const orders = { ...base, connection: { host, port }, shards, removes: true }
  const before = await nodes.cpuMs()
  const startedAt = performance.now()
  const cluster = new Cluster([orders.connection], { redisOptions: { maxRetriesPerRequest: null } })
  const queue = new ShardedQueue<KeyedJob>(orders.queue, { connection: cluster, shards, resource })
  await inChunks(jobs, (some) => queue.addBulk(some.map((data) => ({ name: 'job', data }))))
  await queue.close()
  cluster.disconnect()
  await workers.work(orders)
  await workers.completed(count)
  const tookMs = performance.now() - startedAt
  const usedMs = (await nodes.cpuMs()).map((ms, index) => ms - (before[index] ?? 0))
  const tally = await workers.stop()
  const { inversions, overlaps } = judge(tally.runs)
  await Promise.all(nodes.clients.map((redis) => redis.flushall()))
  const busiestMs = Math.max(...usedMs)
  return {
    jobs: count,
    perSecond: (count / tookMs) * 1_000,
    perCpuSecond: (count / busiestMs) * 1_000,
    /** Of all servers, for adding and running. */
    serversUs: (sum(usedMs) * 1_000) / count,
    workersUs: (tally.cpuMs * 1_000) / count,
    /** Of its share, in percent. */
    busy: (busiestMs / tookMs / CORE_SHARE) * 100,
    wrong: inversions + overlaps,
  }
}

function reported(rounds: Rounds<Nodes, Sample>): Measured {
  const [one] = rounds.contenders
  const held = rounds.contenders.find(({ shards }) => shards === HELD_TO)
  if (one === undefined || held === undefined) throw new Error('Two clusters were expected')
  const column = (head: string, value: Value<Sample>) =>
    [head, (nodes: Nodes) => shown(rounds.spread(nodes, value))] as const
  const table = tableOf('Shards, each on a node of its own', rounds.contenders, [
    ['shards', ({ shards }) => `${shards}`],
    column("CPU of all the queue's servers a job, µs", 'serversUs'),
    column('jobs per CPU-second of the busiest', 'perCpuSecond'),
    ['of 1 shard', (nodes) => shown(rounds.ratio(nodes, one, 'perCpuSecond'))],
    column('CPU of the workers a job, µs', 'workersUs'),
    column('jobs/s here', 'perSecond'),
    column('busiest, % of its share', 'busy'),
  ])
  const name = `Jobs per CPU-second of the busiest server, ${HELD_TO} nodes of 1`
  const ratio = rounds.ratio(held, one, 'perCpuSecond')
  const wrong = sum(rounds.contenders.map((nodes) => rounds.sum(nodes, 'wrong')))
  const order = none('Jobs out of order, or two of a key at once', wrong)
  return { tables: [table], figures: [figure(name, ratio, 'x', { atLeast: 3.2 }), order] }
}

// A share of a core for each of several processes, by control groups of Linux.

const ROOT = '/sys/fs/cgroup'
const IS_UNIFIED = existsSync(`${ROOT}/cgroup.controllers`)
const GROUPS = IS_UNIFIED ? ROOT : `${ROOT}/cpu`
/** Short, so that a process which has used its share soon goes on. */
const PERIOD_US = 20_000

/** Why no process can be limited here; undefined where it can. */
function missingShares(): string | undefined {
  try {
    accessSync(GROUPS, constants.W_OK)
    return undefined
  } catch {
    return `a control group in ${GROUPS} gives each server its share of a core: Linux, as root`
  }
}

/** @returns what ends it after the process has ended. */
function limitCpu(pid: number, share: number): () => void {
  const group = `${GROUPS}/bench-${pid}`
  const quotaUs = Math.round(share * PERIOD_US)
  if (IS_UNIFIED) writeFileSync(`${ROOT}/cgroup.subtree_control`, '+cpu')
  mkdirSync(group, { recursive: true })
  if (IS_UNIFIED) {
    writeFileSync(`${group}/cpu.max`, `${quotaUs} ${PERIOD_US}`)
  } else {
    writeFileSync(`${group}/cpu.cfs_period_us`, `${PERIOD_US}`)
    writeFileSync(`${group}/cpu.cfs_quota_us`, `${quotaUs}`)
  }
  writeFileSync(`${group}/cgroup.procs`, `${pid}`)
  return () => {
    rmdirSync(group)
  }
}
