/**
 * What one episode does: options, and operations with the time between them. It is data, so a
 * failing plan can be printed, shortened and run again.
 */

/** How a job behaves in its processor. */
export interface Work {
  readonly ms: number
  /** This many attempts fail first. */
  readonly fails: number
  /** The first failure allows no further attempt. */
  readonly isFinal?: boolean
  /** It works in so many steps; 0 for none. */
  readonly steps: number
  /** Its first attempt puts the resource to sleep for so long. */
  readonly restMs?: number
  /** It does not stop when its signal aborts. */
  readonly isDeaf?: boolean
  /** Its first run puts it back, or waits for a child that it adds. */
  readonly moves?: 'delay' | 'wait' | 'children'
  /** It tells its progress, logs, and extends its lease. */
  readonly tells?: boolean
  /** It returns while a step of it runs. */
  readonly forgets?: boolean
}

/** What a job is added with. */
export interface JobData {
  /** Names this job in the plan. */
  readonly uid: string
  readonly resources: readonly string[]
  readonly work: Work
  /** What `dedupe.key` returns. */
  readonly key: string
  readonly tenant: string
  readonly weight: number
}

export interface JobOptions {
  readonly delay?: number
  readonly priority?: number
  readonly lifo?: boolean
  readonly jobId?: string
  readonly attempts?: number
  readonly backoff?:
    | number
    | { readonly type: 'exponential'; readonly delay: number; readonly jitter: number }
    | { readonly type: 'custom' }
  /** Relative to the time of the call. */
  readonly timestamp?: number
  readonly keepLogs?: number
  readonly stackTraceLimit?: number
  readonly sizeLimit?: number
  readonly deduplication?: {
    readonly id: string
    readonly ttl?: number
    readonly replace?: boolean
    readonly extend?: boolean
    readonly keepLastIfActive?: boolean
  }
  readonly removeOnComplete?: Keeps
  readonly removeOnFail?: Keeps
  readonly failParentOnFailure?: boolean
  readonly continueParentOnFailure?: boolean
  readonly ignoreDependencyOnFailure?: boolean
  readonly removeDependencyOnFailure?: boolean
}

type Keeps = boolean | { readonly count: number } | { readonly age: number }

export interface JobPlan {
  readonly data: JobData
  readonly opts: JobOptions
}

/** Which producer adds a job: a `LockedQueue` of two, or BullMQ's own `Queue`. */
export type Producer = 0 | 1 | 'plain'

/** What is done; the fields after `do` say to what. */
export type Action =
  | { readonly do: 'add'; readonly by: Producer; readonly job: JobPlan }
  | { readonly do: 'addBulk'; readonly by: Producer; readonly jobs: readonly JobPlan[] }
  /** To a second queue, whose jobs name the same resources. */
  | { readonly do: 'addBeside'; readonly by: 0 | 'plain'; readonly jobs: readonly JobPlan[] }
  | {
      readonly do: 'flow'
      readonly parent: JobPlan
      readonly children: readonly JobPlan[]
      /** The parent is in a queue of BullMQ's own, with a worker of BullMQ's own. */
      readonly across?: boolean
      readonly bulk?: boolean
    }
  | {
      readonly do: 'scheduler'
      readonly by: Producer
      readonly id: string
      readonly everyMs: number
      readonly limit: number
      readonly offset?: number
      /** Relative to the time of the call. */
      readonly startMs?: number
      readonly endMs?: number
      readonly job: JobPlan
    }
  | { readonly do: 'removeScheduler'; readonly id: string }
  | {
      readonly do: 'remove' | 'retry' | 'promote' | 'skip' | 'look' | 'orphan'
      readonly uid: string
    }
  | { readonly do: 'removeById'; readonly uid: string; readonly by: Producer }
  /** By another program, which knows nothing of queues. */
  | { readonly do: 'deleteHash'; readonly uid: string }
  | { readonly do: 'retryAll'; readonly state: 'failed' | 'completed' }
  | { readonly do: 'promoteAll' | 'wakeQueue' | 'trimEvents' | 'removeOrphans' }
  | { readonly do: 'restQueue'; readonly ms: number }
  | { readonly do: 'globalConcurrency'; readonly most?: number }
  | { readonly do: 'globalRate'; readonly most?: number; readonly ms?: number }
  | { readonly do: 'note'; readonly uid: string; readonly what: Note }
  | { readonly do: 'changePriority'; readonly uid: string; readonly priority: number }
  | { readonly do: 'changeDelay'; readonly uid: string; readonly delayMs: number }
  | { readonly do: 'updateData'; readonly uid: string }
  | { readonly do: 'cancel'; readonly uid: string; readonly timeoutMs: number }
  | { readonly do: 'cancelLine'; readonly resource: string; readonly timeoutMs: number }
  | { readonly do: 'pauseLine'; readonly resource: string; readonly forMs?: number }
  | { readonly do: 'resumeLine' | 'resetSlots' | 'resetRate'; readonly resource: string }
  | {
      readonly do: 'setSlots'
      readonly resource: string
      readonly slots: number
      readonly forMs?: number
    }
  | {
      readonly do: 'setRate'
      readonly resource: string
      readonly limit: number
      readonly perMs: number
      readonly burst: number
    }
  | { readonly do: 'pauseQueue' | 'resumeQueue' | 'leaveLines' | 'census' | 'flushScripts' }
  | { readonly do: 'obliterate' | 'restartQueue' | 'settle' }
  /** The queue's Redis is lost, and a replica that lacks its last writes takes over. */
  | { readonly do: 'failover'; readonly lostMs: number }
  /** The queue's Redis stands still, is cut off, or refuses writes, and is right again. */
  | { readonly do: 'faultQueue'; readonly how: QueueFault; readonly forMs: number }
  /** Lock masters are away, and right again. */
  | {
      readonly do: 'faultMasters'
      readonly how: MasterFault
      readonly first: number
      readonly count: number
      readonly forMs: number
    }
  | { readonly do: 'drainQueue'; readonly delayed: boolean }
  | {
      readonly do: 'clean'
      readonly state: 'wait' | 'delayed' | 'failed' | 'completed' | 'prioritized'
    }
  | { readonly do: 'startWorker'; readonly in: 'process' | 'child' }
  | { readonly do: 'pauseWorker' | 'resumeWorker' | 'kill' | 'cut'; readonly worker: number }
  | { readonly do: 'closeWorker'; readonly worker: number; readonly force: boolean }
  | { readonly do: 'drainWorker'; readonly worker: number; readonly timeoutMs: number }
  | { readonly do: 'cancelHere'; readonly worker: number; readonly uid: string }
  | { readonly do: 'cancelAllHere'; readonly worker: number }
  /** Its process is stopped, and goes on. */
  | { readonly do: 'freezeWorker'; readonly worker: number; readonly forMs: number }
  | { readonly do: 'setConcurrency'; readonly worker: number; readonly most: number }
  | { readonly do: 'ask'; readonly worker: number; readonly uid: string }
  | { readonly do: 'stepClock'; readonly worker: number; readonly aheadMs: number }
  | { readonly do: 'cutProducer'; readonly by: Producer }
  | {
      readonly do: 'hold'
      readonly resources: readonly string[]
      readonly forMs: number
      readonly waitMs: number
      readonly how: 'acquire' | 'tryAcquire' | 'using' | 'nested'
      readonly extends?: boolean
      readonly autoExtends?: boolean
      readonly handsOver?: boolean
      readonly abortsAfterMs?: number
    }

/** Those of a kind, also where several kinds have one form. */
export type ActionOf<Kind, Each = Action> = Each extends { readonly do: unknown }
  ? Kind extends Each['do']
    ? Each
    : never
  : never

export type Note = 'progress' | 'progressById' | 'log' | 'logById' | 'clearLogs' | 'deduplication'

/** `replicas`: too few follow it. `full`: it has no memory left. */
export type QueueFault = 'freeze' | 'pause' | 'drop' | 'refuse' | 'replicas' | 'full'

/** `forget`: a kill after which its memory is gone. */
export type MasterFault = 'kill' | 'forget' | 'freeze' | 'cut'

/** An action, when it begins, and whether the next one waits for its answer. */
export type Operation = Action & {
  /** After the operation before it has begun, or has answered. */
  readonly afterMs: number
  readonly waits: boolean
  /** The feature for which it was drawn. */
  readonly of?: string
}

/** Of the queue and its workers. */
export interface Settings {
  readonly order: 'strict' | 'relaxed'
  readonly within: 'added' | 'priority'
  readonly onFailure: 'continue' | 'block'
  readonly slots: number
  /** The jobs say the slots: the first resource has `slots`, the others one. */
  readonly slotsByJob: boolean
  readonly dedupe?: { readonly fresh: boolean; readonly byKey: boolean } | undefined
  readonly checkpoints: boolean
  readonly burstMs: number
  readonly maxWaitMs?: number | undefined
  readonly maxLength?: number | undefined
  readonly whenFull: 'refuse' | 'drop-oldest' | 'drop-newest'
  readonly rate?: Limit | undefined
  readonly tenant: boolean
  readonly weight: boolean
  readonly batch?: { readonly size: number; readonly waitMs: number } | undefined
  readonly concurrency: number
  readonly removeOnComplete?: boolean | number | undefined
  readonly removeOnFail?: boolean | number | undefined
  readonly limiter?: { readonly max: number; readonly duration: number } | undefined
  /** BullMQ's own workers, with `lockedProcessor`. */
  readonly plainWorkers: boolean
  /** Of jobs that cost more than one. */
  readonly costs: boolean
  /** Options of BullMQ that are seldom set. */
  readonly tuned: boolean
  readonly prefix: 'bull' | 'combined'
  /** A sharded queue, and its workers. */
  readonly shards?: number | undefined
  readonly defaultJobOptions: boolean
  /** Workers at the start. */
  readonly workers: readonly ('process' | 'child')[]
}

export interface Limit {
  readonly limit: number
  readonly perMs: number
  readonly burst: number
}

export interface Plan {
  readonly seed: number
  readonly features: readonly string[]
  readonly settings: Settings
  readonly operations: readonly Operation[]
}

export const DEFAULTS: Settings = {
  order: 'strict',
  within: 'added',
  onFailure: 'continue',
  slots: 1,
  slotsByJob: false,
  checkpoints: false,
  burstMs: 50,
  whenFull: 'refuse',
  tenant: false,
  weight: false,
  concurrency: 2,
  plainWorkers: false,
  costs: false,
  tuned: false,
  prefix: 'bull',
  defaultJobOptions: false,
  workers: ['process'],
}
