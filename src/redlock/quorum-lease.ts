/** A lease on a quorum of masters: how it is extended, healed, handed over and released there. */
import type { Instant } from '../clock.ts'
import { HeldLease, type Renewed } from '../lock/held-lease.ts'
import { canBeRenewed } from '../lock/keeper.ts'
import type { LeaseTerms } from '../lock/lease-option.ts'
import { trustFrom } from '../lock/trust.ts'
import { turnMs } from '../lock/waiting.ts'
import type { Attempt } from './attempt.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { answersOf } from './explain.ts'
import { Poll } from './poll.ts'
import { extend, heal, TOKENS_PER_GRANT, type ExtendVote } from './verbs.ts'
import { callOf } from './wire/batch.ts'
import { callMaster, type Master } from './wire/master.ts'

export class QuorumLease extends HeldLease {
  readonly #attempt: Attempt
  /** How often it was passed on before. */
  readonly #passes: number

  /** @internal `before` is the lease that it continues. */
  constructor(attempt: Attempt, terms: LeaseTerms, startedAt: number, before?: QuorumLease) {
    // rule: handed-over-lease-is-no-longer
    super(attempt.fleet.leases, terms, startedAt, before?.trust ?? attempt.trust)
    this.#attempt = attempt
    this.#passes = before === undefined ? 0 : before.#passes + 1
    this.begin()
  }

  get resources(): readonly string[] {
    return this.#attempt.resources
  }

  get token(): string {
    return this.#attempt.token
  }

  get fencingToken(): number {
    return this.#attempt.fence + this.#passes
  }

  belongsTo(fleet: LockFleet): boolean {
    return this.#attempt.fleet === fleet
  }

  /**
   * The next piece of work under the same keys: ends this lease here and goes on with the next
   * fencing token that its grant left room for. Undefined, and nothing has happened, when too
   * little is left of the tokens or of the trust.
   * @throws LeaseLostError when the lease is over.
   */
  handOver(terms: LeaseTerms): QuorumLease | undefined {
    this.assertHeld()
    const { leaseMs } = this
    if (terms.leaseMs !== leaseMs || !canBeRenewed(leaseMs, this.remainingMs())) return undefined
    // rule: as-many-hand-overs-as-tokens
    if (this.#passes + 1 === TOKENS_PER_GRANT) return undefined
    this.endInFavour()
    const now = this.#attempt.fleet.settings.clock.now()
    return new QuorumLease(this.#attempt, terms, now, this)
  }

  /** Deletes the keys on every master. */
  protected free(): Promise<void> {
    const { fleet, tookMs, demand } = this.#attempt
    const graceMs = Math.min(fleet.settings.masterTimeoutMs, turnMs(tookMs))
    return this.#attempt.release(graceMs, demand.waiter).decided
  }

  /** Its keys expire. */
  protected lost(): void {}

  protected async renew(startedAt: Instant, leftMs: number): Promise<Renewed> {
    const { fleet, resources, token, leaseMs, fence } = this.#attempt
    const { driftFactor, masterTimeoutMs } = fleet.settings
    const timeoutMs = Math.max(1, Math.min(masterTimeoutMs, leftMs))
    const call = callOf({ verb: 'extend', resources, token, fence, leaseMs })
    const poll = new Poll(this.#attempt, extend, call, timeoutMs)
    await poll.decided
    // rule: heal-only-after-a-quorum
    if (poll.verdict === 'against') {
      await poll.complete
      return this.#notExtended(poll.votes)
    }
    const tried = new Set<number>()
    this.#healMissing(poll.votes, tried)
    fleet.inBackground(
      poll.complete.then(() => {
        this.#healMissing(poll.votes, tried)
      }),
    )
    return { status: 'extended', trust: trustFrom(startedAt, leaseMs, driftFactor) }
  }

  #notExtended(votes: readonly (ExtendVote | undefined)[]): Renewed {
    const { names, quorum } = this.#attempt.fleet
    const answers = answersOf(names, votes)
    const gone = votes.filter((vote) => vote?.kind === 'missing' || vote?.kind === 'lost').length
    return gone > votes.length - quorum
      ? { status: 'gone', reason: 'a majority of the masters no longer has it', answers }
      : { status: 'unreachable', answers }
  }

  /** Gives the key back to masters that lost it, once a quorum has confirmed this extension. */
  #healMissing(votes: readonly (ExtendVote | undefined)[], tried: Set<number>): void {
    const { fleet } = this.#attempt
    for (const [index, vote] of votes.entries()) {
      const master = fleet.masters[index]
      if (vote?.kind !== 'missing' || master === undefined || tried.has(index)) continue
      if (this.remainingMs() <= 0) return
      tried.add(index)
      fleet.inBackground(this.#heal(master, index))
    }
  }

  async #heal(master: Master, index: number): Promise<void> {
    const { fleet, resources, token, leaseMs, fence } = this.#attempt
    const { clock, masterTimeoutMs } = fleet.settings
    const healing = (this.#attempt.healing ??= new Set())
    healing.add(index)
    const call = callOf({ verb: 'heal', resources, token, fence, leaseMs })
    const vote = heal.read(await callMaster(master, clock, call, masterTimeoutMs), this.#attempt)
    fleet.voted(master, 'heal', vote)
    if (vote.kind !== 'failed' || !vote.mayHaveRun) healing.delete(index)
  }
}
