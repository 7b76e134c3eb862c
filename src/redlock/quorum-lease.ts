/**
 * A held lease.
 *
 *   held ──extend() confirmed by a quorum inside the old trust──▶ held, for longer
 *    │
 *    ├─ release() ─────────────────────────────────────────────▶ released
 *    ├─ passOn(), giveUp() ────────────────────────────────────▶ released, and its keys are the next lease's
 *    ├─ its own timer finds the trust over (either clock) ──────▶ lost, `signal` aborts
 *    ├─ no quorum of the masters can extend it ▶ lost, `signal` aborts
 *    └─ its Redlock closes ────────────────────────────────────▶ lost, `signal` aborts; then released
 *
 * Nothing leads back to held: a lease that lapsed is lost for good, because somebody else may have held
 * the resource since. The timer needs no network; it is the last line when all masters are gone.
 */
import type { Timer } from '../clock.ts'
import { LeaseLostError, RedlockClosedError, type MasterAnswer } from '../errors.ts'
import { canBeKept, keep, type Keeper } from '../lock/keeper.ts'
import type { ExtendOutcome, Lease } from '../lock/lease.ts'
import { labelOf } from '../lock/resources.ts'
import { instant, isFresh, longer, remainingMs, trustFrom, type Trust } from '../lock/trust.ts'
import type { ExtendResult, LeaseEnd, LossReason } from '../telemetry/lock-observer.ts'
import { mayStillGrant, type Grant } from './attempt.ts'
import type { Fleet } from './fleet/fleet.ts'
import { Poll } from './quorum/poll.ts'
import { TOKENS_PER_GRANT } from './verbs/acquire.ts'
import type { Claim, Predecessor } from './verbs/claim.ts'
import { Confirm } from './verbs/confirm.ts'
import { Extend } from './verbs/extend.ts'
import { heal } from './verbs/heal.ts'
import { Release } from './verbs/release.ts'
import { describeVote, type ExtendVote } from './verbs/votes.ts'
import { turnMs } from './waiting/announcements.ts'

/** What the owner of the leases needs to hear. */
export interface LeaseOwner {
  ended(lease: QuorumLease): void
}

export interface LeaseTerms {
  readonly leaseMs: number
  readonly autoExtend: boolean
  readonly maxHoldMs: number
  readonly maxExtensions: number
}

/** How often a lease's timer looks at both clocks, as a fraction of the lease. */
const LOOKS_PER_LEASE = 3

export class QuorumLease implements Lease {
  readonly resource: string
  readonly resources: readonly string[]
  readonly token: string
  readonly leaseMs: number
  readonly #fleet: Fleet
  readonly #owner: LeaseOwner
  readonly #terms: LeaseTerms
  readonly #grant: Grant
  /** Made when somebody asks for the signal; most leases are over before. */
  #abort: AbortController | undefined
  #loss: LeaseLostError | undefined
  /** Masters that were sent the key again and have not said what became of it. */
  #healing: Set<number> | undefined
  /** What the masters have for this lease. */
  #counter: number
  /** How often it was passed on before. */
  #passes = 0
  #trust: Trust
  #timer: Timer | undefined
  #keeper: Keeper | undefined
  #extensions = 0
  #extending: Promise<ExtendOutcome> | undefined
  #released: Promise<void> | undefined
  #isOver = false
  #limitReached: 'maxHoldMs' | 'maxExtensions' | undefined

  /** @internal */
  constructor(
    fleet: Fleet,
    grant: Grant,
    terms: LeaseTerms,
    owner: LeaseOwner,
    before?: QuorumLease,
  ) {
    this.resource = labelOf(grant.claim.resources)
    this.resources = grant.claim.resources
    this.token = grant.claim.token
    this.#counter = grant.counter
    this.leaseMs = grant.leaseMs
    this.#fleet = fleet
    this.#grant = grant
    this.#terms = terms
    this.#owner = owner
    this.#trust = grant.trust
    if (before !== undefined) {
      this.#counter = before.#counter
      this.#passes = before.#passes + 1
      this.#trust = before.#trust
      this.#healing = before.#healing
    }
    this.#watch()
    if (terms.autoExtend) this.#keeper = keep(this, fleet.settings.clock)
  }

  get fencingToken(): number {
    return this.#counter + this.#passes
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#loss !== undefined) this.#abort.abort(this.#loss)
    }
    return this.#abort.signal
  }

  belongsTo(owner: LeaseOwner): boolean {
    return this.#owner === owner
  }

  get trustedUntil(): number {
    return this.#trust.until
  }

  remainingMs(): number {
    if (this.#released !== undefined || this.#loss !== undefined) return 0
    return remainingMs(this.#trust, instant(this.#fleet.settings.clock))
  }

  assertHeld(): void {
    if (this.remainingMs() > 0) return
    if (this.#released !== undefined) throw this.#lostError('it was released')
    throw this.#lapse()
  }

  async extend(): Promise<ExtendOutcome> {
    this.assertHeld()
    this.#extending ??= this.#told(this.#extend()).finally(() => {
      this.#extending = undefined
    })
    return this.#extending
  }

  release(): Promise<void> {
    this.#released ??= this.#release()
    return this.#released
  }

  /** Its Redlock closes: work under this lease must stop before another client may be granted. */
  close(): Promise<void> {
    if (this.remainingMs() > 0) this.#lose('its Redlock was closed while it was held', [], 'closed')
    return this.release()
  }

  /** Takes a larger fencing token, if a quorum agrees: every later lease has a larger one still. */
  async raise(fencingToken: number): Promise<boolean> {
    this.assertHeld()
    const poll = new Poll(this.#fleet, new Confirm(this.#fleet, this.#claim, fencingToken))
    if ((await poll.verdict) === 'against') return false
    this.#counter = fencingToken
    this.#passes = 0
    return this.remainingMs() > 0
  }

  /**
   * The next piece of work under the same keys, without asking anybody: ends this lease here and goes on with the next fencing
   * token that its grant left room for. Undefined, and nothing has happened, when too little is left of either.
   * @throws LeaseLostError when there is nothing left to pass on.
   */
  passOn(terms: LeaseTerms): QuorumLease | undefined {
    this.assertHeld()
    const { leaseMs } = this
    const leftMs = this.remainingMs()
    const enough = terms.autoExtend ? canBeKept(leaseMs, leftMs) : isFresh(leftMs, leaseMs)
    if (terms.leaseMs !== leaseMs || !enough) return undefined
    if (this.#passes + 1 === TOKENS_PER_GRANT) return undefined
    this.giveUp()
    const startedAt = instant(this.#fleet.settings.clock)
    return new QuorumLease(this.#fleet, { ...this.#grant, startedAt }, terms, this.#owner, this)
  }

  /**
   * Ends this lease here without telling the masters: the first half of a hand over. The keys stay until the
   * successor has taken them over or `releaseKeys` deletes them.
   * @throws LeaseLostError when there is nothing left to hand over.
   */
  giveUp(): Predecessor {
    this.assertHeld()
    this.#end('handed-over')
    this.#released = Promise.resolve()
    return { token: this.token, counter: this.#counter, waiter: this.#grant.waiter }
  }

  /** Deletes the keys everywhere, whatever became of the lease. */
  async releaseKeys(): Promise<void> {
    const { claim, tookMs, waiter } = this.#grant
    const isUnsettled = (index: number): boolean =>
      mayStillGrant(this.#fleet, this.#grant, index) || this.#healing?.has(index) === true
    const graceMs = Math.min(this.#fleet.settings.masterTimeoutMs, turnMs(tookMs))
    const terms = { claim, leaseMs: this.leaseMs, isUnsettled, graceMs, waiter }
    await new Poll(this.#fleet, new Release(this.#fleet, terms)).verdict
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  get #claim(): Claim {
    return this.#grant.claim
  }

  #told(extending: Promise<ExtendOutcome>): Promise<ExtendOutcome> {
    const { observer, settings } = this.#fleet
    const startedAt = settings.clock.now()
    const tell = (result: ExtendResult): void => {
      observer.extended(this, result, settings.clock.now() - startedAt)
    }
    extending.then(
      ({ status }) => {
        tell(status)
      },
      () => {
        tell('lost') // Or released meanwhile: nothing was extended.
      },
    )
    return extending
  }

  async #extend(): Promise<ExtendOutcome> {
    const { clock, driftFactor, masterTimeoutMs } = this.#fleet.settings
    const option = this.#limit()
    if (option !== undefined) {
      this.#limitReached = option
      return { status: 'limit', remainingMs: this.remainingMs(), option }
    }
    this.#extensions++
    const startedAt = instant(clock)
    const leftMs = remainingMs(this.#trust, startedAt)
    const timeoutMs = Math.max(1, Math.min(masterTimeoutMs, leftMs))
    const verb = new Extend(this.#claim, this.#counter, this.leaseMs, timeoutMs)
    const poll = new Poll(this.#fleet, verb)
    const verdict = await poll.verdict
    this.assertHeld() // An answer counts only inside the old trust.
    if (verdict === 'against') {
      await poll.complete
      this.assertHeld()
      return this.#notExtended(poll.votes)
    }
    this.#trust = longer(this.#trust, trustFrom(startedAt, this.leaseMs, driftFactor))
    this.assertHeld()
    const asked = new Set<number>()
    this.#healMissing(poll.votes, asked)
    this.#fleet.inBackground(
      poll.complete.then(() => {
        this.#healMissing(poll.votes, asked)
      }),
    )
    return { status: 'extended', remainingMs: this.remainingMs() }
  }

  #notExtended(votes: readonly (ExtendVote | undefined)[]): ExtendOutcome {
    const answers = this.#answers(votes)
    const gone = votes.filter((vote) => vote?.kind === 'missing' || vote?.kind === 'lost').length
    if (gone > votes.length - this.#fleet.quorum) {
      throw this.#lose('a majority of the masters no longer has it', answers, 'majority-gone')
    }
    return { status: 'unreachable', remainingMs: this.remainingMs(), answers }
  }

  /** Gives the key back to masters that lost it, once a quorum has confirmed this extension. */
  #healMissing(votes: readonly (ExtendVote | undefined)[], asked: Set<number>): void {
    for (const [index, vote] of votes.entries()) {
      const master = this.#fleet.masters[index]
      if (vote?.kind !== 'missing' || master === undefined || asked.has(index)) continue
      if (this.remainingMs() <= 0) return
      asked.add(index)
      const healing = (this.#healing ??= new Set())
      healing.add(index)
      const healed = heal(this.#fleet, master, this.#claim, this.#counter, this.leaseMs)
      this.#fleet.inBackground(
        healed.then((answer) => {
          if (answer.kind !== 'failed' || !answer.mayHaveRun) healing.delete(index)
        }),
      )
    }
  }

  #limit(): 'maxHoldMs' | 'maxExtensions' | undefined {
    const { clock } = this.#fleet.settings
    const heldMs = clock.now() - this.#grant.startedAt.now
    if (heldMs + this.leaseMs > this.#terms.maxHoldMs) return 'maxHoldMs'
    return this.#extensions >= this.#terms.maxExtensions ? 'maxExtensions' : undefined
  }

  async #release(): Promise<void> {
    const { clock } = this.#fleet.settings
    const startedAt = clock.now()
    this.#end('released')
    await this.releaseKeys()
    this.#fleet.observer.released(this, clock.now() - startedAt)
  }

  /** Looks at both clocks until the lease is over; an extension only moves the next look. */
  #watch(): void {
    const leftMs = this.remainingMs()
    if (leftMs <= 0) {
      this.#lapse()
      return
    }
    const lookMs = Math.min(leftMs, this.leaseMs / LOOKS_PER_LEASE)
    this.#timer = this.#fleet.settings.clock.after(Math.ceil(lookMs), () => {
      this.#watch()
    })
  }

  #lapse(): LeaseLostError {
    const limit = this.#limitReached
    return this.#lose(
      limit === undefined
        ? `it was not extended within its ${this.leaseMs} ms`
        : `it was held as long as \`${limit}\` allows`,
      [],
      limit === undefined ? 'lapsed' : limit === 'maxHoldMs' ? 'max-hold' : 'max-extensions',
    )
  }

  /** The only way to lose a lease: the signal first, then those who want to know. */
  #lose(reason: string, answers: readonly MasterAnswer[], kind: LossReason): LeaseLostError {
    if (this.#loss !== undefined) return this.#loss
    const loss = this.#lostError(reason, answers)
    if (kind === 'closed') loss.cause = new RedlockClosedError()
    if (this.#released !== undefined) return loss
    this.#loss = loss
    this.#abort?.abort(loss)
    this.#end('lost')
    this.#fleet.leaseLost(this, kind)
    return loss
  }

  #end(how: LeaseEnd): void {
    if (!this.#isOver) {
      this.#isOver = true
      const heldMs = this.#fleet.settings.clock.now() - this.#grant.startedAt.now
      this.#fleet.observer.ended(this, this.#loss === undefined ? how : 'lost', heldMs)
    }
    this.#timer?.cancel()
    this.#timer = undefined
    this.#keeper?.stop()
    this.#owner.ended(this)
  }

  #lostError(reason: string, answers: readonly MasterAnswer[] = []): LeaseLostError {
    return new LeaseLostError(this.resource, this.fencingToken, reason, answers)
  }

  #answers(votes: readonly (ExtendVote | undefined)[]): readonly MasterAnswer[] {
    return this.#fleet.masters.map(({ name }, index) => ({
      master: name,
      answer: describeVote(votes[index]),
    }))
  }
}
