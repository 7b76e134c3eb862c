/** Changes that break no rule, and why. The survey does not judge them. */

export interface Harmless {
  readonly file: string
  /** Occurs once in it. */
  readonly code: string
  /** What is changed in this code, and into what. */
  readonly changes: readonly (readonly [found: string, replace: string])[]
  readonly why: string
}

const TOLD = 'only what is logged or measured differs'
const EQUAL = 'at equality both do the same'
const LONG_FORM = 'the call takes the long form, which does the same'
const TOMBSTONES = 'it leaves more tombstones, which end by themselves'
const MESSAGE = 'only a message differs'

export const HARMLESS: readonly Harmless[] = [
  {
    file: 'src/redlock/quorum/quorum.ts',
    code: 'if (shortest === undefined || counter === undefined) return undefined',
    changes: [['||', '&&']],
    why: 'both are undefined, or none is',
  },
  {
    file: 'src/redlock/quorum/poll.ts',
    code: 'polls.add(this)',
    changes: [['polls.add(this)', ';']],
    why: 'a close does not wait for the answers',
  },
  {
    file: 'src/redlock/quorum/poll.ts',
    code: 'isSent: false',
    changes: [['false', 'true']],
    why: TOMBSTONES,
  },
  {
    file: 'src/redlock/quorum/poll.ts',
    code: "if (this.#isObserved || vote.kind === 'failed') {",
    changes: [["this.#isObserved || vote.kind === 'failed'", '(true as boolean)']],
    why: TOLD,
  },
  {
    file: 'src/redlock/attempt.ts',
    code: 'if (holderBy(poll.votes) === undefined) await poll.complete',
    changes: [['holderBy(poll.votes) === undefined', '(true as boolean)']],
    why: 'it costs time and nothing else',
  },
  {
    file: 'src/redlock/attempt.ts',
    code: 'if (counter !== proposal) proposals.observe(counter)',
    changes: [
      ['counter !== proposal', '(true as boolean)'],
      ['counter !== proposal', '(false as boolean)'],
      ['!==', '==='],
      ['proposals.observe(counter)', ';'],
    ],
    why: 'masters keep tokens increasing; the next proposal needs one round more',
  },
  {
    file: 'src/redlock/attempt.ts',
    code: 'const tookMs = end.now - start.now',
    changes: [['-', '+']],
    why: TOLD,
  },
  {
    file: 'src/redlock/attempt.ts',
    code: "const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)",
    changes: [['&&', '||']],
    why: TOMBSTONES,
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: 'handOver(terms: LeaseTerms): QuorumLease | undefined {\n    this.assertHeld()',
    changes: [['this.assertHeld()', ';']],
    why: '`endInFavour` looks too, in the same turn',
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: 'await poll.complete',
    changes: [['await poll.complete', ';']],
    why: 'it is said to be unreachable, and trusted until its end and no longer',
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: 'tried.add(index)',
    changes: [['tried.add(index)', ';']],
    why: 'the second heal finds the key of the first',
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: "this.#fleet.inBackground(\n        healed.then((answer) => {\n          if (answer.kind !== 'failed' || !answer.mayHaveRun) healing.delete(index)\n        }),\n      )",
    changes: [
      [
        "this.#fleet.inBackground(\n        healed.then((answer) => {\n          if (answer.kind !== 'failed' || !answer.mayHaveRun) healing.delete(index)\n        }),\n      )",
        ';',
      ],
    ],
    why: TOMBSTONES,
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: "if (answer.kind !== 'failed' || !answer.mayHaveRun) healing.delete(index)",
    changes: [
      ["answer.kind !== 'failed' || !answer.mayHaveRun", '(false as boolean)'],
      ['||', '&&'],
    ],
    why: TOMBSTONES,
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'const smaller = Math.abs(byMonotonic) < Math.abs(byWall) ? byMonotonic : byWall',
    changes: [['<', '<=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'if (jumpedMs !== 0 || sample.uncertaintyMs <= agedMs) this.#references.set(master, sample)',
    changes: [['<=', '<']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'if (jumpedMs !== 0 || sample.at - this.#comparedAt > COMPARE_MS) this.#compare(sample.at)',
    changes: [
      ['jumpedMs !== 0 || sample.at - this.#comparedAt > COMPARE_MS', '(true as boolean)'],
      ['>', '>='],
      ['-', '+'],
    ],
    why: 'it compares more often, or a moment earlier',
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'if (this.#suspendedUntil.size === 0) return 0',
    changes: [['this.#suspendedUntil.size === 0', '(false as boolean)']],
    why: 'the next line says the same',
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'if (until === undefined) return 0',
    changes: [['until === undefined', '(false as boolean)']],
    why: 'no number is larger than now, and so it is 0',
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'if (until > now) return Math.ceil(until - now)',
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'this.#comparedAt = at',
    changes: [['this.#comparedAt = at', ';']],
    why: 'it compares more often',
  },
  {
    file: 'src/redlock/verbs/votes.ts',
    code: "return vote.kind === 'failed' ? vote.reason : vote.kind",
    changes: [
      ["vote.kind === 'failed'", '(true as boolean)'],
      ["vote.kind === 'failed'", '(false as boolean)'],
      ['===', '!=='],
    ],
    why: TOLD,
  },
  {
    file: 'src/redlock/verbs/votes.ts',
    code: "return 'waitMs' in vote",
    changes: [["'waitMs' in vote", '(true as boolean)']],
    why: MESSAGE,
  },
  {
    file: 'src/redlock/verbs/votes.ts',
    code: "return 'holder' in vote && vote.holder !== ''",
    changes: [['!==', '===']],
    why: MESSAGE,
  },
  {
    file: 'src/lock/describe-token.ts',
    code: 'return at < 0 ? `${token.slice(0, 6)}\u2026` : `${token.slice(at + 1)} (${token.slice(0, 6)}\u2026)`',
    changes: [['<', '<=']],
    why: MESSAGE,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: "reserved = redis.call('EXISTS', unpack(refusals)) > 0",
    changes: [['>', '>=']],
    why: 'each key is read again before it refuses',
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: "if keptMs > redis.call('PTTL', waiters) then redis.call('PEXPIRE', waiters, keptMs) end",
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: "if redis.call('PTTL', holderKey) > tonumber(maxLeaseMs) then redis.call('PEXPIRE', holderKey, maxLeaseMs) end",
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: "if counter + ${TOKENS_PER_GRANT} > tonumber(proposal) then fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end",
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: 'if not nowMs then readRecord() end',
    changes: [['not ', '']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: 'if not grants or flagged or proposed > latestUs or proposed < earliestUs',
    changes: [['>', '>=']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: 'if (!isAhead && counter > this.#seen) this.#seen = counter',
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/verbs/extend.ts',
    code: 'if not nowMs then readRecord() end',
    changes: [['not ', '']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/extend.ts',
    code: "or tonumber(call('GET', fenceKey) or '0') > tonumber(fence) then",
    changes: [['>', '>=']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/heal.ts',
    code: "fleet.voted(master, 'heal', vote)",
    changes: [["fleet.voted(master, 'heal', vote)", ';']],
    why: TOLD,
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'for (let tries = 0; tries < MAX_RELEASE_TRIES; tries++) {',
    changes: [['<', '<=']],
    why: 'one try more; the key ends by itself',
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'const leftMs = until - clock.now()',
    changes: [['-', '+']],
    why: 'its tries are limited too; the key ends by itself',
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return',
    changes: [['<=', '<']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'const timeoutMs = Math.max(1, until - clock.now())',
    changes: [['-', '+']],
    why: 'the answer may come later; the key ends by itself',
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'await sleep(clock, RELEASE_RETRY_MS)',
    changes: [['await sleep(clock, RELEASE_RETRY_MS)', ';']],
    why: 'its tries are used up sooner; the key ends by itself',
  },
  {
    file: 'src/redlock/verbs/library.ts',
    code: 'latestUs = (nowMs + (maxClockSkewMs or 0)) * 1000',
    changes: [[' or ', ' and ']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/library.ts',
    code: "if forMs > redis.call('PTTL', flagKey) then redis.call('SET', flagKey, '1', 'PX', forMs) end",
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'log?.granted(this, this.#terms.slots)',
    changes: [['log?.granted(this, this.#terms.slots)', ';']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (this.remainingMs() > 0) {',
    changes: [['>', '>=']],
    why: 'a lease without trust is over, and its loss is reported as that of a close',
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (!this.#isOver) this.#watch(this.remainingMs())',
    changes: [['!this.#isOver', '(true as boolean)']],
    why: 'another line has ended it before',
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'result = outcome.status',
    changes: [['result = outcome.status', ';']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'observer.extended(this, result, clock.now() - startedAt)',
    changes: [['-', '+']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.#trust = longer(this.#trust, answer.trust)\n    this.assertHeld()',
    changes: [['this.assertHeld()', ';']],
    why: '`remainingMs` is 0, and the next check ends the lease',
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.#registry.log?.extended(this)',
    changes: [['this.#registry.log?.extended(this)', ';']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (!this.#isOver) log?.released(this)',
    changes: [
      ['!this.#isOver', '(true as boolean)'],
      ['!this.#isOver', '(false as boolean)'],
    ],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (observer.listens()) observer.released(this, clock.now() - startedAt)',
    changes: [
      ['observer.listens()', '(true as boolean)'],
      ['observer.listens()', '(false as boolean)'],
      ['observer.released(this, clock.now() - startedAt)', ';'],
      ['-', '+'],
    ],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'const checkMs = Math.ceil(Math.min(leftMs, this.#terms.leaseMs / CHECKS_PER_LEASE))',
    changes: [['Math.ceil', 'Math.floor']],
    why: 'it checks up to a millisecond earlier, and again',
  },
  {
    file: 'src/lock/held-lease.ts',
    code: "const kind = limit === 'maxHoldMs' ? 'max-hold' : 'max-extensions'",
    changes: [
      ["limit === 'maxHoldMs'", '(true as boolean)'],
      ["limit === 'maxHoldMs'", '(false as boolean)'],
      ['===', '!=='],
    ],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (this.#released !== undefined) return loss',
    changes: [['this.#released !== undefined', '(false as boolean)']],
    why: 'no check and no extension of a released lease gets here',
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.lost()',
    changes: [['this.lost()', ';']],
    why: 'the key at the server ends by itself',
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.#isOver = true',
    changes: [['true', 'false']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (!this.#isOver) {',
    changes: [['!this.#isOver', '(true as boolean)']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'if (observer.listens()) {',
    changes: [
      ['observer.listens()', '(true as boolean)'],
      ['observer.listens()', '(false as boolean)'],
    ],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'const heldMs = clock.now() - this.#startedAt',
    changes: [['-', '+']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: "observer.ended(this, this.#loss === undefined ? how : 'lost', heldMs)",
    changes: [
      ['this.#loss === undefined', '(true as boolean)'],
      ['this.#loss === undefined', '(false as boolean)'],
    ],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.#check = undefined',
    changes: [['this.#check = undefined', ';']],
    why: 'an object is kept in memory for longer',
  },
  {
    file: 'src/redlock/wire/enrolment.ts',
    code: 'this.#waiters.delete(settle)',
    changes: [['this.#waiters.delete(settle)', ';']],
    why: 'a promise that is settled is not settled again',
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'Math.ceil(Math.max(MIN_TURN_MS, TRIPS_PER_TURN * roundTripMs))',
    changes: [
      ['Math.ceil', 'Math.floor'],
      ['Math.max', 'Math.min'],
      ['*', '/'],
    ],
    why: 'a reservation only refuses, and ends by itself',
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: 'Math.min(this.#fleet.settings.masterTimeoutMs, turnMs(tookMs))',
    changes: [['Math.min', 'Math.max']],
    why: 'a reservation only refuses, and ends by itself',
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: 'const tried = new Set<number>()\n    this.#healMissing(poll.votes, tried)',
    changes: [['this.#healMissing(poll.votes, tried)', ';']],
    why: 'it heals when all have answered',
  },
  {
    file: 'src/redlock/quorum-lease.ts',
    code: 'healing.delete(index)\n        }),',
    changes: [['healing.delete(index)', ';']],
    why: TOMBSTONES,
  },
  {
    file: 'src/redlock/fleet/clock-watch.ts',
    code: 'return Math.abs(smaller) > explainedMs ? smaller : 0',
    changes: [['>', '>=']],
    why: EQUAL,
  },
  {
    file: 'src/redlock/verbs/acquire.ts',
    code: 'or proposed < earliestUs',
    changes: [['<', '<=']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/library.ts',
    code: 'grants = enrolled and quarantineMs <= 0',
    changes: [['<=', '<']],
    why: LONG_FORM,
  },
  {
    file: 'src/redlock/verbs/library.ts',
    code: 'latestUs = (nowMs + (maxClockSkewMs',
    changes: [[' + ', ' - ']],
    why: LONG_FORM,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.#registry.log?.handedOver(this)',
    changes: [['this.#registry.log?.handedOver(this)', ';']],
    why: TOLD,
  },
  {
    file: 'src/lock/held-lease.ts',
    code: 'this.#loss === undefined ? how',
    changes: [['===', '!==']],
    why: TOLD,
  },
  {
    file: 'src/redlock/wire/enrolment.ts',
    code: 'REENROL_ON.test(message)',
    changes: [['REENROL_ON.test(message)', '(true as boolean)']],
    why: 'a server is enrolled again without need',
  },
  {
    file: 'src/redlock/verbs/votes.ts',
    code: "return 'holder' in vote && vote.holder !== ''",
    changes: [["'holder' in vote && vote.holder !== ''", '(false as boolean)']],
    why: MESSAGE,
  },
  {
    file: 'src/redlock/verbs/release.ts',
    code: 'if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return',
    changes: [['leftMs <= 0 || !(await master.whenEnrolled(leftMs))', '(false as boolean)']],
    why: 'its tries are used up sooner; the key ends by itself',
  },
]
