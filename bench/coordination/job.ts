/** The jobs of every load, and the messages between the benchmark and its child processes. */

export interface KeyedJob {
  /** The resource. */
  readonly key: string
  /** Counts the jobs of a key in the order in which they are added. */
  readonly nr: number
  readonly workMs: number
  /** It fails the first time that a process runs it. */
  readonly fails?: true
}

/** One run of one job, on the clock that all processes of the machine share. */
export interface Run {
  readonly key: string
  readonly nr: number
  readonly startedAt: number
  readonly endedAt: number
}

/**
 * `strict`: LockedWorker on a LockedQueue. `gate`: LockedWorker on a plain Queue, where a job takes
 * its place when it is first started. `tenants`: as `strict`, with a tenant and a weight. `batch`:
 * as `strict`, in batches. `sharded`: a ShardedWorker on a ShardedQueue of one shard. `relaxed`:
 * no lines, a refused job comes back after a random delay. `plain`: BullMQ alone. A {@link Peer}:
 * that library.
 */
export type Contender =
  'strict' | 'tenants' | 'batch' | 'sharded' | 'gate' | 'relaxed' | 'plain' | Peer

/** Other libraries that keep an order by key. */
export type Peer = 'groupmq' | 'bunqueue' | 'pg-boss' | 'graphile-worker'

/** Of the contender `batch`. */
export const BATCH_SIZE = 10

/** Whose a key is: named in it, or one of ten. */
export function tenantOf(key: string): string {
  return /-tenant:(\w+)/.exec(key)?.[1] ?? key.slice(-1)
}

/** The weight that is named in a key. */
export function weightOf(key: string): number {
  return Number(/-weight:(\d+)/.exec(key)?.[1] ?? 1)
}

export interface Orders {
  readonly contender: Contender
  readonly queue: string
  /** Of the server that has the contender's queues. */
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly leaseMs: number
  readonly concurrency: number
  /** How many keys the jobs have, where a library is set up by it. */
  readonly keys?: number
  /** Of a sharded queue; `connection` is a node of its cluster. */
  readonly shards?: number
  /** Jobs that are done are removed. */
  readonly removes?: boolean
  /** The worker reports the start and the end of each run at once. */
  readonly announce?: boolean
  /** Plain BullMQ finds the jobs of a dead worker as soon as ours does. */
  readonly recoversSoon?: boolean
  /** Servers and processes are hurt on purpose: errors of the worker are not printed. */
  readonly quiet?: boolean
}

export interface Tally {
  /** In the order of their starts. */
  readonly runs: readonly Run[]
  /** How many runs each process made. */
  readonly runsByProcess: readonly number[]
  /** Starts that ended with the job requeued. */
  readonly wasted: number
  readonly cpuMs: number
}

/** What a worker process is asked to do: its argument and its answer. */
export interface Calls {
  work: { readonly argument: Orders; readonly answer: null }
  /** A peer adds jobs in its own runtime. */
  add: {
    readonly argument: { readonly orders: Orders; readonly jobs: readonly KeyedJob[] }
    readonly answer: null
  }
  stop: { readonly argument: null; readonly answer: Tally }
}

/** The start or the end of one run. */
export interface Sighting {
  readonly report: 'entered' | 'left'
  readonly key: string
  readonly nr: number
  readonly at: number
}

/** What a worker process tells by itself. */
export type WorkerEvent = Sighting | { readonly report: 'done'; readonly count: number }
