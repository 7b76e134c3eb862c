/** The jobs of every load, and the messages between the benchmark and its worker processes. */

export interface KeyedJob {
  /** The resource. */
  readonly key: string
  /** Counts the jobs of a key in the order in which they are added. */
  readonly nr: number
  readonly workMs: number
  /** It fails the first time that a process runs it. */
  readonly fails?: boolean
  readonly delayMs?: number
  /** In its line; lower ones run first. */
  readonly priority?: number
}

/** One run of one job, on the clock that all processes of the machine share. */
export interface Run {
  readonly key: string
  readonly nr: number
  readonly startedAt: number
  readonly endedAt: number
}

/**
 * `strict`: LockedWorker on a LockedQueue. `tenants`: with a tenant and a weight. `batch`: in
 * batches. `sharded`: a ShardedWorker on a ShardedQueue. `plain`: BullMQ alone. The others are
 * libraries that keep an order by key, too.
 */
export type Contender =
  | 'strict'
  | 'tenants'
  | 'batch'
  | 'sharded'
  | 'plain'
  | 'groupmq'
  | 'bunqueue'
  | 'pg-boss'
  | 'graphile-worker'

/** Of the contender `batch`. */
export const BATCH_SIZE = 10

export const resource = ({ key }: KeyedJob): string => key

/** Whose a key is: named in it, or one of ten. */
export const tenantOf = ({ key }: Pick<KeyedJob, 'key'>): string =>
  /-tenant:(\w+)/.exec(key)?.[1] ?? key.slice(-1)
export const weightOf = ({ key }: KeyedJob): number => Number(/-weight:(\d+)/.exec(key)?.[1] ?? 1)

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
  /** Of a sharded queue: `connection` is a node of its cluster. */
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
  readonly cpuMs: number
}

export interface Calls {
  work: { readonly argument: Orders; readonly answer: null }
  /** Where the parent has no client: a peer's. */
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

export type WorkerEvent = Sighting | { readonly report: 'done'; readonly count: number }

/** `run` is the processor of every job; `completed` is called when the queue has its end. */
export type Work = (
  orders: Orders,
  run: (job: KeyedJob) => Promise<void>,
  completed: () => void,
) => Promise<{ stop(): Promise<unknown> }>

/** A library beside ours, as its documentation shows it, with what serves it best here. */
export interface PeerQueue {
  readonly work: Work
  /** Adds jobs; those of one key in their order. */
  add(orders: Orders, jobs: readonly KeyedJob[]): Promise<void>
}

/** Some calls take so many jobs at most. */
export async function inChunks(
  jobs: readonly KeyedJob[],
  add: (some: readonly KeyedJob[]) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < jobs.length; from += 1_000) await add(jobs.slice(from, from + 1_000))
}
