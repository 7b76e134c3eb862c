/** The jobs of every load, and what is said between the benchmark and its worker processes. */

export interface KeyedJob {
  readonly key: string
  /** Place among the jobs of its key. */
  readonly nr: number
  readonly workMs: number
}

/** One run of one job, on the clock that all processes of the machine share. */
export interface Run {
  readonly key: string
  readonly nr: number
  readonly startedAt: number
  readonly endedAt: number
}

/**
 * `strict`: LockedWorker on a LockedQueue. `gate`: LockedWorker on a plain Queue, where jobs take their place when first started.
 * `dedupe`: as `strict`, and one answer for all jobs of a key. `relaxed`: no lines, refused jobs come back after a random delay. `plain`: BullMQ alone. `groupmq`: that library.
 * `woken`: BullMQ alone, where each job wakes the next one of its key as `strict` does. No line, no lease, nothing that survives a crash: what
 * waking alone costs.
 */
export type Contender = 'strict' | 'gate' | 'relaxed' | 'plain' | 'groupmq' | 'dedupe' | 'woken'

/** By which a job of `woken` is known to the one before it. */
export function wokenId(key: string, nr: number): string {
  return `${key}-${nr}`
}

export interface Orders {
  readonly contender: Contender
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly leaseMs: number
  readonly concurrency: number
  /** Says when each job starts, so that its process can be killed in the middle. */
  readonly announce?: boolean
}

export interface Tally {
  readonly runs: readonly Run[]
  /** Starts that ended with the job given back. */
  readonly wasted: number
  readonly heapBytes: number
  readonly cpuMs: number
}

export type Command =
  { readonly command: 'work'; readonly orders: Orders } | { readonly command: 'stop' }

export type Report =
  | { readonly report: 'ready' }
  | { readonly report: 'working' }
  | { readonly report: 'done'; readonly count: number }
  | { readonly report: 'entered'; readonly nr: number; readonly key: string; readonly at: number }
  | { readonly report: 'stopped'; readonly tally: Tally }
