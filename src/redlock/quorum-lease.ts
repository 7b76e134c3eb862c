/** A lease on a quorum of masters: how it is extended, healed, handed over and released there. */
import type { Instant } from '../clock.ts'
import { HeldLease, type Renewed } from '../lock/held-lease.ts'
import { canBeRenewed } from '../lock/keeper.ts'
import type { LeaseTerms } from '../lock/lease-option.ts'
import { trustFrom } from '../lock/trust.ts'
import { mayStillGrant, type Grant } from './attempt.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { answersOf } from './quorum/explain.ts'
import { Poll } from './quorum/poll.ts'
import { TOKENS_PER_GRANT } from './verbs/acquire.ts'
import { Extend } from './verbs/extend.ts'
import { heal } from './verbs/heal.ts'
import { Release, turnMs } from './verbs/release.ts'
import type { ExtendVote } from './verbs/votes.ts'

export class QuorumLease extends HeldLease {
  readonly #fleet: LockFleet
  readonly #grant: Grant
  /** How often it was passed on before. */
  readonly #passes: number
  /** Masters that were sent the key again and have not said what became of it. */
  #healing: Set<number> | undefined

  /** @internal `leftMs` is what is left of its trust; `before` is the lease that it continues. */
  constructor(
    fleet: LockFleet,
    grant: Grant,
    terms: LeaseTerms,
    leftMs: number,
    before?: QuorumLease,
  ) {
    // rule: handed-over-lease-is-no-longer
    super(fleet.leases, terms, grant.startedAt, before?.trust ?? grant.trust)
    this.#fleet = fleet
    this.#grant = grant
    this.#passes = before === undefined ? 0 : before.#passes + 1
    this.#healing = before === undefined ? undefined : before.#healing
    this.begin(leftMs)
  }

  get resources(): readonly string[] {
    return this.#grant.attempt.resources
  }

  get token(): string {
    return this.#grant.attempt.token
  }

  get fencingToken(): number {
    return this.#grant.counter + this.#passes
  }

  belongsTo(fleet: LockFleet): boolean {
    return this.#fleet === fleet
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
    const leftMs = this.remainingMs()
    if (terms.leaseMs !== leaseMs || !canBeRenewed(leaseMs, leftMs)) return undefined
    // rule: as-many-hand-overs-as-tokens
    if (this.#passes + 1 === TOKENS_PER_GRANT) return undefined
    this.endInFavour()
    const grant = { ...this.#grant, startedAt: this.#fleet.settings.clock.now() }
    return new QuorumLease(this.#fleet, grant, terms, leftMs, this)
  }

  /** Deletes the keys on every master. */
  protected async free(): Promise<void> {
    const { attempt, tookMs } = this.#grant
    const isUnsettled = (index: number): boolean =>
      mayStillGrant(this.#fleet, this.#grant, index) || this.#healing?.has(index) === true
    const graceMs = Math.min(this.#fleet.settings.masterTimeoutMs, turnMs(tookMs))
    const terms = { attempt, isUnsettled, graceMs, waiter: attempt.waiter }
    await new Poll(this.#fleet, new Release(this.#fleet, terms)).verdict
  }

  /** Its keys expire. */
  protected lost(): void {}

  protected async renew(startedAt: Instant, leftMs: number): Promise<Renewed> {
    const { driftFactor, masterTimeoutMs } = this.#fleet.settings
    const timeoutMs = Math.max(1, Math.min(masterTimeoutMs, leftMs))
    const { attempt, counter } = this.#grant
    const verb = new Extend(this.#fleet, attempt, counter, timeoutMs)
    const poll = new Poll(this.#fleet, verb)
    // rule: heal-only-after-a-quorum
    if ((await poll.verdict) === 'against') {
      await poll.complete
      return this.#notExtended(poll.votes)
    }
    const tried = new Set<number>()
    this.#healMissing(poll.votes, tried)
    this.#fleet.inBackground(
      poll.complete.then(() => {
        this.#healMissing(poll.votes, tried)
      }),
    )
    return { status: 'extended', trust: trustFrom(startedAt, this.leaseMs, driftFactor) }
  }

  #notExtended(votes: readonly (ExtendVote | undefined)[]): Renewed {
    const answers = answersOf(this.#fleet.names, votes)
    const gone = votes.filter((vote) => vote?.kind === 'missing' || vote?.kind === 'lost').length
    return gone > votes.length - this.#fleet.quorum
      ? { status: 'gone', reason: 'a majority of the masters no longer has it', answers }
      : { status: 'unreachable', answers }
  }

  /** Gives the key back to masters that lost it, once a quorum has confirmed this extension. */
  #healMissing(votes: readonly (ExtendVote | undefined)[], tried: Set<number>): void {
    for (const [index, vote] of votes.entries()) {
      const master = this.#fleet.masters[index]
      if (vote?.kind !== 'missing' || master === undefined || tried.has(index)) continue
      if (this.remainingMs() <= 0) return
      tried.add(index)
      const healing = (this.#healing ??= new Set())
      healing.add(index)
      const healed = heal(this.#fleet, master, this.#grant.attempt, this.#grant.counter)
      this.#fleet.inBackground(
        healed.then((answer) => {
          if (answer.kind !== 'failed' || !answer.mayHaveRun) healing.delete(index)
        }),
      )
    }
  }
}
