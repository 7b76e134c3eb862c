/** The errors of locks and leases. Where masters were asked, each carries what they said. */
import { RedlockError } from './errors.ts'
import { list, splitOver, takenBy } from './refusal-words.ts'

/** One master's answer in words, as errors and outcomes carry them. */
export interface MasterAnswer {
  /** `host:port`. */
  readonly master: string
  /** What it said, or why it said nothing. */
  readonly answer: string
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
      `${takenBy(resource, holder, retryAfterMs)} Try again later; \`acquire\` and \`using\` wait ` +
        `for at most \`waitMs\`. ${list(answers)}`.trimEnd(),
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
    super(`${splitOver(resource)} Try again after a short random delay. ${list(answers)}`)
    this.resource = resource
    this.answers = answers
  }
}

/** One server is named, whatever it is. Only of several masters it matters how many vote. */
function grantor(quorum: number, answers: readonly MasterAnswer[]): string {
  const [only, second] = answers
  return only !== undefined && second === undefined
    ? only.master
    : `Fewer than ${quorum} of ${answers.length} \`masters\` can vote: the fleet`
}

/**
 * Too few masters, or not the lock service, could answer. Nothing is known about who holds the
 * resource.
 */
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
      `${grantor(quorum, answers)} grants no lease${resource === undefined ? '' : ` on \`${resource}\``}. ` +
        `${
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

/** The client of the locks was closed. */
export class RedlockClosedError extends RedlockError {
  readonly code = 'CLOSED'

  constructor() {
    super('This client of the locks is closed. Create a new one.')
  }
}
