/** Why a job does not start, or stops. */
import { commandLine } from './command-line.ts'
import { ofQueue } from './shown-commands.ts'
import { RedlockError } from './errors.ts'

/** BullMQ's own lock on the job was lost: another worker may run it, or its keys were deleted. */
export class JobLockLostError extends RedlockError {
  readonly code = 'JOB_LOCK_LOST'
  /** BullMQ's id of the job. */
  readonly jobId: string

  constructor(jobId: string) {
    super(
      `BullMQ's lock on job ${jobId} was lost, so the job is stopped here: another worker may run it, or its keys were deleted. ` +
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

/** A job waited longer than `maxWaitMs` for its resource. */
export class WaitedTooLongError extends RedlockError {
  readonly code = 'WAITED_TOO_LONG'
  /** The resource that the job waited for, or several with ` + ` between them. */
  readonly resource: string
  /** The limit that is over. */
  readonly maxWaitMs: number

  /** @param queue its prefix and its name. */
  constructor(resources: readonly string[], maxWaitMs: number, queue = '') {
    const label = resources.join(' + ')
    const [first = ''] = resources
    super(
      `The job waited for \`${label}\` longer than \`maxWaitMs\` (${maxWaitMs}). ` +
        `Run ${ofQueue(commandLine`inspect ${first}`, queue)} to see why, or raise \`maxWaitMs\`.`,
    )
    this.resource = label
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
