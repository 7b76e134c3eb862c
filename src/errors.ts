/** What every error of this package extends, and the errors of queues and workers. */
import { commandLine } from './command-line.ts'
import { ofQueue } from './shown-commands.ts'
import { messageOf, withoutStop } from './message-of.ts'

const OURS: unique symbol = Symbol.for('bullmq-redlock.error')

/**
 * What all errors of this package extend, apart from `TypeError` for a bad option. The message says
 * what happened and what to do.
 * @example
 * ```ts
 * try {
 *   await redlock.acquire('customer:42', { waitMs: 0 })
 * } catch (error) {
 *   if (!(error instanceof RedlockError)) throw error
 *   console.log(error.code) // RESOURCE_TAKEN | SPLIT_VOTE | QUORUM_UNREACHABLE | …
 * }
 * ```
 */
export abstract class RedlockError extends Error {
  /** Names the kind of error. It does not change between releases. */
  abstract readonly code: string

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
  }

  /** @internal */
  get [OURS](): true {
    return true
  }

  /**
   * Holds also for an error of another copy of this package: a process may have several.
   * @internal
   */
  static override [Symbol.hasInstance](error: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, error)) return true
    const { name, [OURS]: isOurs } = (error ?? {}) as Partial<RedlockError>
    // rule: errors-of-another-copy-are-known
    return isOurs === true && (this === RedlockError || this.name === name)
  }
}

/** The line of a resource has `maxLength` jobs: this one was not added. */
export class LineFullError extends RedlockError {
  readonly code = 'LINE_FULL'
  /** The name of the queue. */
  readonly queue: string
  /** The one whose line is full. */
  readonly resource: string
  /** How many unfinished jobs it may have. */
  readonly maxLength: number

  constructor(queue: string, resource: string, maxLength: number, qualifiedName: string = queue) {
    const see = ofQueue(commandLine`inspect ${resource}`, qualifiedName)
    super(
      `The line of \`${resource}\` in queue \`${queue}\` is full: it has ${maxLength} unfinished jobs. ` +
        `The job was not added. Add it later, raise \`maxLength\`, or set \`whenFull\`; ` +
        `${see} shows what the line waits for.`,
    )
    this.queue = queue
    this.resource = resource
    this.maxLength = maxLength
  }
}

/** A sharded queue cannot do this, because several of its shards would have to do it together. */
export class ShardError extends RedlockError {
  readonly code = 'SEVERAL_SHARDS'
}

/** The server of one shard does not answer, or refuses. Other shards may have done their part. */
export class ShardUnreachableError extends RedlockError {
  readonly code = 'SHARD_UNREACHABLE'
  /** Its prefix, and the name of the queue. */
  readonly queue: string
  /** Its number, from 0 on. */
  readonly shard: number

  constructor(queue: string, shard: number, cause: unknown) {
    super(
      `${withoutStop(messageOf(cause))}. This is shard ${shard}, \`${queue}\`. ` +
        `It may still do what was asked, and the other shards may have done it. ` +
        `Repeat the call when its server answers.`,
      { cause },
    )
    this.queue = queue
    this.shard = shard
  }
}

/** Another process uses this queue with another number of shards, so resources would move. */
export class ShardsDifferError extends RedlockError {
  readonly code = 'SHARDS_DIFFER'
  /** The name of the queue. */
  readonly queue: string
  /** The process will not work before its option is changed. */
  readonly isOwnFault = true

  constructor(queue: string, here: number, recorded: unknown) {
    super(
      `Queue \`${queue}\` has ${String(recorded)} shards, and \`shards\` of this process is ${here}. ` +
        `Their number does not change, because resources would move and lose their order. ` +
        `For another number, use a new name, and let the workers of the old name drain it.`,
    )
    this.queue = queue
  }
}

/** The queue's own Redis does not answer. */
export class QueueUnreachableError extends RedlockError {
  readonly code = 'QUEUE_UNREACHABLE'
  /** The name of the queue. */
  readonly queue: string
  /** For how long its Redis has been silent. */
  readonly waitedMs: number

  /** @param cause what is wrong with its connection. */
  constructor(queue: string, waitedMs: number, cause: string) {
    const doctor = ofQueue(commandLine`doctor`, queue)
    super(
      `The Redis of queue \`${queue}\` has not answered for ${waitedMs} ms: ${cause}; ` +
        `${doctor} says more. The worker keeps trying; no job is lost.`,
    )
    this.queue = queue
    this.waitedMs = waitedMs
  }
}

/**
 * The user of the queue's Redis may not call what a script of the queue calls. The script would
 * stop in its middle, so it does nothing. It runs once the user may.
 */
export class QueueDeniedError extends RedlockError {
  readonly code = 'QUEUE_DENIED'
  /** Its prefix, and the name of the queue. */
  readonly queue: string
  /** What is denied. */
  readonly commands: readonly string[]

  constructor(queue: string, commands: readonly string[]) {
    const rights = commands.map((each) => `+${each.toLowerCase()}`).join(' ')
    super(
      `NOPERM The user of queue \`${queue}\` may not call ${commands.join(', ')}, so nothing was done. ` +
        `Allow it with \`ACL SETUSER <user> ${rights}\`; deploy/redis/queue.acl has all that it needs.`,
    )
    this.queue = queue
    this.commands = commands
  }
}

/** One setting of two that work on the same queue. */
export interface SettingDifference {
  /** The option that differs. */
  readonly name: 'namespace' | 'order' | 'slots'
  /** Its value in this process. */
  readonly here: string | number
  /** Its value in the other process. */
  readonly there: string | number
}

/**
 * The LockedWorker or LockedQueue of the same queue that started before has other settings. Nothing
 * is stopped for it. Reported once, when this one starts.
 */
export class SettingsDifferError extends RedlockError {
  readonly code = 'SETTINGS_DIFFER'
  /** The name of the queue. */
  readonly queue: string
  /** One entry for each option that differs. */
  readonly differences: readonly SettingDifference[]
  /** When the other one started, on its clock. */
  readonly startedAt: Date

  constructor(
    queue: string,
    [here, there]: readonly [string, string],
    differences: readonly SettingDifference[],
    startedAt: Date,
  ) {
    const differ = differences.map(
      (each) => `\`${each.name}\` is ${each.here} in this ${here} and ${each.there} in a ${there}`,
    )
    super(
      `Queue \`${queue}\`: settings differ between processes: ${differ.join(', ')} (started ${startedAt.toISOString()}). ` +
        `While both run, jobs of one resource may run at once, or sleep in lines that no worker moves. ` +
        `Use the same settings everywhere; a LockedQueue needs workers with \`order: 'strict'\`. ` +
        `After a deploy that changed them, the first new process reports this once.`,
    )
    this.queue = queue
    this.differences = differences
    this.startedAt = startedAt
  }
}

/** Workers that wake no sleeping job work on a queue whose jobs sleep in line. */
export class PlainWorkerError extends RedlockError {
  readonly code = 'PLAIN_WORKER'
  /** The name of the queue. */
  readonly queue: string

  constructor(queue: string) {
    super(
      `Workers run on queue \`${queue}\`, and none was ever a LockedWorker, so jobs that wait for their ` +
        `resource stay asleep. Use \`LockedWorker\`, or add the jobs with \`Queue\`.`,
    )
    this.queue = queue
  }
}

/**
 * The worker is shutting down and its limit is reached: the job stops and goes back to the queue.
 */
export class ShutdownError extends RedlockError {
  readonly code = 'SHUTDOWN'

  constructor() {
    super('The worker is shutting down: the job was stopped and requeued.')
  }
}
