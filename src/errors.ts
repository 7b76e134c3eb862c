/**
 * Every error this package throws on purpose, apart from `TypeError` for a bad option. Each has a
 * stable `code`; the message says which resource, which masters, and what to do.
 */

/** One master's answer in words, as errors and outcomes carry them. */
export interface MasterAnswer {
  /** `host:port`. */
  readonly master: string
  /** What it said, or why it said nothing. */
  readonly answer: string
}

function list(answers: readonly MasterAnswer[]): string {
  return answers.map(({ master, answer }) => `${master}: ${answer}`).join(' · ')
}

const OURS: unique symbol = Symbol.for('bullmq-redlock.error')

/**
 * What all errors of this package extend, apart from `TypeError` for a bad option.
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

/** Another client holds a quorum of the masters for this resource. */
export class ResourceTakenError extends RedlockError {
  readonly code = 'RESOURCE_TAKEN'
  /** The resource that was asked for. */
  readonly resource: string
  /** The holder's `owner` and the beginning of its token. */
  readonly holder: string
  /** The longest time to live that a master reported, in milliseconds. */
  readonly retryAfterMs: number
  /** What each master said. */
  readonly answers: readonly MasterAnswer[]

  constructor(
    resource: string,
    holder: string,
    retryAfterMs: number,
    answers: readonly MasterAnswer[],
  ) {
    super(
      `\`${resource}\` is held by ${holder} for at most another ${retryAfterMs} ms. ` +
        `Wait longer (\`waitMs\`) or try again later. ${list(answers)}`,
    )
    this.resource = resource
    this.holder = holder
    this.retryAfterMs = retryAfterMs
    this.answers = answers
  }
}

/**
 * No client holds a quorum: contenders defeated each other, or a dead attempt's keys are about to
 * expire.
 */
export class SplitVoteError extends RedlockError {
  readonly code = 'SPLIT_VOTE'
  /** The resource that was asked for. */
  readonly resource: string
  /** What each master said. */
  readonly answers: readonly MasterAnswer[]

  constructor(resource: string, answers: readonly MasterAnswer[]) {
    super(
      `The votes for \`${resource}\` were split: no client holds a quorum. ` +
        `Try again after a short random delay. ${list(answers)}`,
    )
    this.resource = resource
    this.answers = answers
  }
}

/** Too few masters could answer. Nothing is known about who holds the resource. */
export class QuorumUnreachableError extends RedlockError {
  readonly code = 'QUORUM_UNREACHABLE'
  /** The resource asked for; undefined when the fleet as a whole is not ready. */
  readonly resource: string | undefined
  /** How many masters must vote. */
  readonly quorum: number
  /** When enough quarantined masters vote again; 0 when that is not what is missing. */
  readonly retryAfterMs: number
  /** What each master said. */
  readonly answers: readonly MasterAnswer[]

  constructor(
    resource: string | undefined,
    quorum: number,
    retryAfterMs: number,
    answers: readonly MasterAnswer[],
  ) {
    super(
      `Fewer than ${quorum} of ${answers.length} \`masters\` can vote: ` +
        `${resource === undefined ? 'the fleet is not ready' : `no lease on \`${resource}\` is granted`}. ${
          retryAfterMs > 0
            ? `Enough of them vote in ${retryAfterMs} ms. If this fleet is new, run \`bullmq-redlock bootstrap\`.`
            : 'Check the servers named here and the network to them.'
        } ${list(answers)}`,
    )
    this.resource = resource
    this.quorum = quorum
    this.retryAfterMs = retryAfterMs
    this.answers = answers
  }
}

/** Why a master cannot be used, and what to do. */
export interface MasterProblem {
  /** `host:port`. */
  readonly master: string
  /** What is wrong. */
  readonly problem: string
  /** What to do. */
  readonly fix: string
}

/**
 * A master is reachable but must not vote: a replica, an evicting server, the same server twice, …
 */
export class MasterRefusedError extends RedlockError {
  readonly code = 'MASTER_REFUSED'
  /** One entry for each refused master. */
  readonly problems: readonly MasterProblem[]
  /** The client's own settings are wrong: it will not work before they are changed. */
  readonly isOwnFault: boolean

  constructor(problems: readonly MasterProblem[], isOwnFault = false) {
    super(
      `${problems.length} of the \`masters\` cannot be used. ` +
        problems.map(({ master, problem, fix }) => `${master}: ${problem}; ${fix}`).join(' · '),
    )
    this.problems = problems
    this.isOwnFault = isOwnFault
  }
}

/** The lease is too short for the distance to the masters. */
export class LeaseTooShortError extends RedlockError {
  readonly code = 'LEASE_TOO_SHORT'
  /** The length that was asked for. */
  readonly leaseMs: number
  /** The measured time to a quorum and back. */
  readonly roundTripMs: number
  /** The shortest lease that would do. */
  readonly neededMs: number

  constructor(leaseMs: number, roundTripMs: number, neededMs: number) {
    super(
      `\`leaseMs\` is ${leaseMs}, but a round trip to a quorum of the masters takes ${roundTripMs} ms: ` +
        `set \`leaseMs\` to at least ${neededMs} or move the workers closer to the masters.`,
    )
    this.leaseMs = leaseMs
    this.roundTripMs = roundTripMs
    this.neededMs = neededMs
  }
}

/**
 * The clock of this machine is so far ahead that too many masters refuse its fencing tokens. No
 * lease is granted before it is set right.
 */
export class ClockAheadError extends RedlockError {
  readonly code = 'CLOCK_AHEAD'
  /** How far it is ahead of the masters' clocks. */
  readonly aheadMs: number

  constructor(aheadMs: number, maxClockSkewMs: number) {
    super(
      `The clock of this machine is ${aheadMs} ms ahead of the masters' clocks, and \`maxClockSkewMs\` is ` +
        `${maxClockSkewMs}: set it right (NTP). Until then no lease is granted here.`,
    )
    this.aheadMs = aheadMs
  }
}

/** `bootstrap` was asked to state that no lease exists, and one does. */
export class LeaseExistsError extends RedlockError {
  readonly code = 'LEASE_EXISTS'
  /** `host:port` of the master that holds it. */
  readonly master: string
  /** The key of the lease. */
  readonly key: string

  constructor(master: string, key: string) {
    super(
      `${master} holds a lease (\`${key}\`): this fleet is in use. ` +
        `Bootstrap only a fleet on which no worker has run, or wait one \`maxLeaseMs\` instead.`,
    )
    this.master = master
    this.key = key
  }
}

/** `bootstrap` was asked to state that the fleet is new, and it is not, or that is not certain. */
export class NotNewFleetError extends RedlockError {
  readonly code = 'NOT_NEW_FLEET'
  /** Which masters show signs of use, or could not be asked. */
  readonly answers: readonly MasterAnswer[]

  constructor(answers: readonly MasterAnswer[]) {
    super(
      'This fleet is not new: its masters may have forgotten leases that are still trusted. ' +
        'Wait one `maxLeaseMs`. If no worker has run on it within that time, an operator may run ' +
        `\`bullmq-redlock bootstrap\`. ${list(answers)}`,
    )
    this.answers = answers
  }
}

/** The lease ended before the work did. Whatever still runs must stop and must not write. */
export class LeaseLostError extends RedlockError {
  readonly code = 'LEASE_LOST'
  /** What the lease covered. */
  readonly resource: string
  /** The token of the lost lease. */
  readonly fencingToken: number
  /** What ended it, in words. */
  readonly reason: string
  /** What each master said. Empty where no master was asked. */
  readonly answers: readonly MasterAnswer[]

  constructor(
    resource: string,
    fencingToken: number,
    reason: string,
    answers: readonly MasterAnswer[] = [],
  ) {
    super(
      `The lease on \`${resource}\` (fencing token ${fencingToken}) is lost: ${reason}.` +
        (answers.length > 0 ? ` ${list(answers)}` : ''),
    )
    this.resource = resource
    this.fencingToken = fencingToken
    this.reason = reason
    this.answers = answers
  }
}

/** A store has seen a later lease's write, so this one is refused. Nothing was written. */
export class StaleTokenError extends RedlockError {
  readonly code = 'STALE_TOKEN'
  /** What was to be written: a table and its key, a Redis key, an object. */
  readonly target: string
  /** The token of the refused write. */
  readonly fencingToken: number
  /** The token of the later lease, where the store tells it. */
  readonly storedToken: number | undefined

  constructor(target: string, fencingToken: number, storedToken: number | undefined) {
    super(
      `A later lease has written \`${target}\`: fencing token ${fencingToken} is stale` +
        `${storedToken === undefined ? '' : ` (stored: ${storedToken})`}. Stop this work; the later holder does it.`,
    )
    this.target = target
    this.fencingToken = fencingToken
    this.storedToken = storedToken
  }
}

/** BullMQ's own lock on the job could not be renewed: another worker may start the same job. */
export class JobLockLostError extends RedlockError {
  readonly code = 'JOB_LOCK_LOST'
  /** BullMQ's id of the job. */
  readonly jobId: string

  constructor(jobId: string) {
    super(
      `BullMQ's lock on job ${jobId} was lost, so the job is stopped here: another worker may run it. ` +
        `If this repeats, raise \`lockDuration\` or stop blocking the event loop.`,
    )
    this.jobId = jobId
  }
}

/**
 * A processor has ended while steps of its job still ran. They were waited for under the lease, and
 * the job fails with this.
 */
export class StepNotAwaitedError extends RedlockError {
  readonly code = 'STEP_NOT_AWAITED'
  /** The names of the steps. */
  readonly steps: readonly string[]

  constructor(steps: readonly string[]) {
    super(
      `The processor ended before its steps \`${steps.join('`, `')}\`. Write \`await\` before each call of lease.step()`,
    )
    this.steps = steps
  }
}

/**
 * The user's `resource` function threw or did not return a usable name. The job fails with this.
 */
export class ResourceError extends RedlockError {
  readonly code = 'RESOURCE_INVALID'

  constructor(jobId: string | undefined, problem: string, options?: ErrorOptions) {
    super(
      `\`resource\` ${problem} for job ${jobId ?? '?'}: it must return a string of 1 to 512 ` +
        `characters that names what the job touches, for example \`customer:42\`, or a list of them.`,
      options,
    )
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

  constructor(queue: string, resource: string, maxLength: number) {
    super(
      `The line of \`${resource}\` in queue \`${queue}\` is full: it has ${maxLength} unfinished jobs. ` +
        `The job was not added. Add it later, raise \`maxLength\`, or set \`whenFull\`; ` +
        `\`bullmq-redlock inspect\` shows what the line waits for.`,
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

  /** @param cause what is wrong with `connection`, where it is known. */
  constructor(queue: string, waitedMs: number, cause = 'check `connection`') {
    super(
      `The Redis of queue \`${queue}\` has not answered for ${waitedMs} ms: ${cause}; ` +
        `\`bullmq-redlock doctor\` says more. The worker keeps trying; no job is lost.`,
    )
    this.queue = queue
    this.waitedMs = waitedMs
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

/** A job waited longer than `maxWaitMs` for its resource. */
export class WaitedTooLongError extends RedlockError {
  readonly code = 'WAITED_TOO_LONG'
  /** The resource that the job waited for. */
  readonly resource: string
  /** The limit that is over. */
  readonly maxWaitMs: number

  constructor(resource: string, maxWaitMs: number) {
    super(
      `The job waited for \`${resource}\` longer than \`maxWaitMs\` (${maxWaitMs}). ` +
        `Run \`bullmq-redlock inspect\` to see why, or raise \`maxWaitMs\`.`,
    )
    this.resource = resource
    this.maxWaitMs = maxWaitMs
  }
}

/** A result or checkpoint is too large to be kept in the queue's Redis. */
export class ValueTooLargeError extends RedlockError {
  readonly code = 'VALUE_TOO_LARGE'
  /** The size of the value as JSON. */
  readonly bytes: number
  /** The limit: `maxValueBytes`. */
  readonly maxBytes: number

  constructor(name: string, bytes: number, maxBytes: number) {
    super(
      `The result of \`${name}\` is ${bytes} bytes as JSON, more than \`maxValueBytes\` (${maxBytes}): ` +
        `store it elsewhere and return a reference to it.`,
    )
    this.bytes = bytes
    this.maxBytes = maxBytes
  }
}

/** A job was cancelled by `queue.cancel()`. Also the reason of its signal, where it ran. */
export class JobCancelledError extends RedlockError {
  readonly code = 'JOB_CANCELLED'
  /** BullMQ's id of the job. */
  readonly jobId: string
  /** What `queue.cancel` was given. */
  readonly reason: string

  constructor(jobId: string, reason: string) {
    super(`Job ${jobId} was cancelled: ${reason}`)
    this.jobId = jobId
    this.reason = reason
  }
}

/** The Redlock instance was closed. */
export class RedlockClosedError extends RedlockError {
  readonly code = 'CLOSED'

  constructor() {
    super('This Redlock instance is closed. Create a new one.')
  }
}
