/**
 * Rules of the protocol, of the lines and of the worker. Each mutant takes a rule away by the
 * smallest change to the statement below its comment, and names what must notice. The exhaustive
 * model is an argument for the rules. It does not run the code, so it kills no mutant.
 */
import type { Clocks } from '../sim/scenario.ts'
import type { Change } from './rule-comments.ts'

export interface Mutant {
  /** As the comment above the statement names it: `rule: name`. */
  readonly rule: string
  readonly change: Change
  readonly killedBy: Killer
}

/**
 * What must notice: a file of tests or one test of it, the simulation within so many seeds, or the
 * combinations within so many episodes.
 */
export type Killer =
  | { readonly test: string; readonly name?: string }
  | { readonly seeds: number; readonly clocks?: Clocks }
  | { readonly episodes: number }

/** By what must notice: a file of tests, and a part of a title where one of them must. */
const BY_TEST: Readonly<Record<string, readonly (readonly [string, Change, title?: string])[]>> = {
  'redlock/fleet/master-log': [
    ['told-quarantine-is-still-on', 'removed', 'masters that are quarantined at once'],
    [
      'start-of-a-client-is-no-outage',
      ["why?.status === 'suspended' ? undefined : ", ''],
      'whose clock is not compared yet',
    ],
  ],
  'redlock/coordination': [
    [
      'taken-slot-is-passed-over',
      ['=== outcome.resource', '=== undefined'],
      'the one free slot of each',
    ],
    ['old-holder-stops-before-it-hands-over', 'removed', 'of a new lease asks no master'],
    [
      'handed-over-lease-is-no-longer',
      ['= this', '= { trust: trustFrom(start, leaseMs, 0.01) }'],
      'of a new lease asks no master',
    ],
    ['as-many-hand-overs-as-tokens', 'removed', 'has a token for each'],
    ['holder-does-not-wait-for-itself', 'always', 'without the place of a holder'],
    ['holder-of-a-slot-waits-for-no-other', 'removed', 'leave no place where'],
    ['closed-client-keeps-no-place', 'removed', 'ends at once, and leaves its place'],
    ['place-that-is-asked-for-ends-with-its-client', 'removed', 'leaves no place that its first'],
  ],
  'redlock/pure': [['quorum-is-a-majority', ['+ 1', ''], 'two quorums always share a master']],
  'bad-input/unfit-masters': [['masters-are-distinct', 'never']],
  'lock/pure': [
    ['drift-margin', ['+ 2', '* 0'], 'is counted from the start of the attempt'],
    [
      'either-clock-ends-trust',
      ['trust.wallUntil - at.wallNow', 'Infinity'],
      'is over when either clock says so',
    ],
    [
      'longer-trust-is-of-one-instant',
      [
        'b.until >= a.until ? b : a',
        '{ until: Math.max(a.until, b.until), wallUntil: Math.max(a.wallUntil, b.wallUntil) }',
      ],
      'an extension after a clock was set',
    ],
    ['longer-trust-is-of-one-instant', ['? b : a', '? a : b']],
    ['lease-has-each-key-once', ['new Set(', '('], 'asked for by its name'],
  ],
  'sim/lease-timer': [['timer-checks-both-clocks', ['/', '*']]],
  'hazards/expired-grants': [['too-late-after-the-votes', 'never']],
  deadlines: [['answers-that-came-in-time-count', 'never', 'an answer that came in time counts']],
  'redlock/redlock': [
    ['a-quorum-has-exactly-the-token', 'never', 'counters that differ are levelled on a quorum'],
    [
      'quarantine-on-a-monotonic-clock',
      ['clock.now()', 'clock.now() - 1e9'],
      'a master that comes back empty',
    ],
  ],
  'sim/exact-counters': [
    ['a-quorum-has-exactly-the-token', ['fleet.quorum', '1'], 'a quorum holds the token'],
    [
      'confirm-counts-the-exact-token',
      ['first === fencingToken', 'fencingToken > 0'],
      'a counter that has gone on',
    ],
  ],
  'redlock/wire/grant-scripts': [
    ['waiter-has-one-place', ['other ~= i', 'other == 0']],
    ['place-lasts-as-long-as-its-waiter', 'never', 'stays in front of those'],
    ['confirm-only-my-key', 'removed'],
    ['unenrolled-grants-nothing', 'removed'],
    ['quarantined-grants-nothing', 'removed'],
    ['proposal-far-ahead-is-refused', 'removed'],
    ['abandoned-token-is-refused', 'removed'],
    ['held-resource-is-not-granted', [" 'NX',", '']],
    ['counter-grows-with-every-grant', 'removed'],
    ['one-server-of-one-fleet', [' and record[3] == fleetSize', '']],
    ['one-server-of-one-fleet', ['record[1] == runId and ', '']],
  ],
  'hazards/wrong-clocks': [
    ['token-above-forgotten-ones', 'removed', 'a token is larger'],
    ['master-out-of-line-grants-nothing', 'never', 'a client that starts after'],
    [
      'master-out-of-line-extends-nothing',
      ['clocks.isOutOfLine(master)', 'master === undefined'],
      'an extension does not rest',
    ],
  ],
  'redlock/replies': [['suspended-master-grants-nothing', 'never']],
  'sim/clock-returns': [
    [
      'suspended-master-is-asked-the-time',
      ['master.ask(', 'if (this.#askedTheTime?.has(master) !== true) master.ask('],
    ],
  ],
  'redlock/fleet/refusing-masters': [
    ['every-master-passes-a-trial', 'removed', 'one of three'],
    ['refused-question-means-a-trial', 'never', 'two of three'],
    ['idle-client-looks-at-its-masters', 'removed', 'an idle client notices by itself'],
  ],
  'redlock/fleet/clock-watch': [
    ['clock-jump-suspends', 'never'],
    [
      'late-reply-puts-no-clock-ahead',
      [' - reference.uncertaintyMs', ''],
      'no late reply explains',
    ],
  ],
  'redlock/wire/renewal-scripts': [
    ['extend-only-my-key', 'removed'],
    ['extend-only-without-a-later-grant', 'removed'],
    ['extend-creates-no-key', 'removed'],
    ['extension-never-shortens', [", 'GT'", '']],
    ['healed-key-does-not-extend', 'removed'],
    ['heal-only-my-key', 'removed'],
    ['heal-only-without-a-later-grant', 'removed'],
    ['release-only-my-key', ['if value == owners[i] then', 'if true then']],
    ['tombstone-is-announced', 'removed'],
    ['refused-attempt-wakes-no-waiter', [" and waitMs ~= '0'", '']],
  ],
  'sim/scripts-equal-model': [['waited-for-release-is-announced', ['not flagged and ', '']]],
  'sim/late-extension': [['reply-inside-the-old-trust', 'removed']],
  'sim/healing': [['heal-only-after-a-quorum', ['poll.verdict', '(healMissing(), poll.verdict)']]],
  'sim/abandoned-attempts': [
    ['release-on-every-master', ['call', "callOf({ verb: 'release', resources: ['elsewhere'] })"]],
    ['tombstone-behind-another-connection', ['mayHaveRun', 'false']],
    [
      'release-waits-for-its-master',
      ['(await master.enrolment.whenEnrolled())', "(master.state.status === 'enrolled')"],
    ],
  ],
  'redlock/wire/enrolment-scripts': [
    ['new-run-id-is-quarantined', 'removed'],
    ['new-run-id-is-quarantined', ['known[1] ~= ARGV[1]', 'not known[1]']],
    [
      'each-loss-of-memory-begins-its-own-quarantine',
      [" .. '@' .. time[1] .. time[2]", ''],
      'a quarantine of another name',
    ],
    ['fleets-of-one-size', 'removed'],
    ['refused-client-founds-no-fleet', 'removed'],
    ['only-the-counted-quarantine-ends', 'removed'],
  ],
  'redlock/wire/enrolment': [
    [
      'durable-means-every-write-waits',
      ["(await setting(redis, 'no-appendfsync-on-rewrite')) === 'no'", 'redis !== undefined'],
    ],
  ],
  'lock/reentrancy': [
    ['nested-calls-have-the-same-slots', 'never'],
    ['aborted-call-joins-no-lease', 'removed', 'whose signal has aborted'],
  ],
  'lock/held-lease': [
    [
      'due-one-is-a-member-until-its-turn',
      ['first.expire(list.timeoutMs)', 'queueMicrotask(first.expire.bind(first, list.timeoutMs))'],
      'due with it',
    ],
    ['only-a-confirmed-extension-counts', 'removed', 'only what the server confirmed'],
  ],
  'line/clocks': [
    ['clock-that-was-set-back-keeps-no-turn', 'always', 'the same while'],
    ['clock-that-was-set-back-stops-no-check', 'never', 'the same while a worker'],
    ['changed-delay-by-the-clock-of-the-server', [', time: 2', ''], 'a changed delay'],
  ],
  'worker/instances': [
    [
      'place-of-one-instance',
      ["(string.match(timestamp or '', '^%s*%+?(%-?%d+)') or 'NaN')", '0'],
      'has no place of an earlier one',
    ],
    [
      'place-of-one-instance',
      ["(string.match(timestamp or '', '^%s*%+?(%-?%d+)') or 'NaN')", 'timestamp'],
      'runs in its line',
    ],
    ['steps-end-with-their-job', 'removed', 'end in the trip'],
    ['trimmed-job-ends-its-steps', 'removed', 'end when the queue'],
    ['cancel-of-one-run', 'always', 'ends with the run'],
    ['request-goes-with-its-run', 'removed', 'goes with its run'],
    [
      'job-of-another-queue-leaves-no-line-here',
      ['string.sub(key, 1, #BASE) == BASE', 'true'],
      'one of another queue',
    ],
    ['job-of-another-queue-leaves-its-lines', 'removed', 'one of another queue'],
    ['job-without-data-fails', 'never', 'whose data are gone'],
    ['checkpoints-of-one-instance', 'never', 'are not those of'],
    ['job-without-a-hash-keeps-nothing', 'never', 'keeps no steps'],
  ],
  'line/scale': [
    ['many-slots-cost-as-few', 'never', 'costs no more than'],
    [
      'place-before-the-last-slot-is-a-head',
      ['rank < slots + (limits and 1 or 0)', 'true'],
      'is put back in line',
    ],
    [
      'sleeping-head-before-one-that-runs-is-found',
      [' and (#found == 1 or starts)', ''],
      'with the highest priority',
    ],
    [
      'head-that-is-just-woken-ends-no-look',
      [' and not (woken and woken[job.jobKey])', ''],
      'also by jobs of other lines',
    ],
    ['sweep-looks-at-some-places', 'always', 'at some thousand jobs'],
    [
      'obliteration-takes-several-calls',
      ['isCut = isMoreLeft()', 'while isMoreLeft() do end'],
      'removed in several calls',
    ],
    [
      'limits-that-are-left-are-found',
      [
        "redis.call('HRANDFIELD', SPACE .. 'limits', most)",
        "redis.call('HSCAN', SPACE .. 'limits', 0, 'COUNT', most)[2]",
      ],
      'removed in several calls',
    ],
  ],
  'line/line': [
    ['dead-places-are-dropped', ['not isThis or', ''], 'when its id belongs to another job now'],
    [
      'dead-places-are-dropped',
      [' or (job.finishedOn and job.holds ~= job.finishedOn)', ''],
      'when a plain worker has finished its job',
    ],
    [
      'dead-places-are-dropped',
      ['job.holds ~= job.finishedOn', 'not job.holds'],
      'no longer when a plain worker',
    ],
    [
      'only-the-failure-that-holds-is-skipped',
      [' and job[3] == job[4]', ''],
      'no job that runs is skipped',
    ],
    ['deleted-job-leaves', 'never', 'have no place when they are'],
    ['job-without-a-share-is-not-ready', 'removed', 'wait for neither'],
    ['held-job-leaves-its-lines', [' and not job.held', ''], 'leaves its line as the others do'],
    ['held-job-is-not-replaced', 'never', 'is not replaced by a job'],
    ['replaced-job-wakes-the-next', 'removed', 'lets its line go on'],
    ['drained-job-waits-no-more', 'always', 'keeps the jobs of schedulers'],
    [
      'slot-of-a-head-that-sleeps-on-is-free',
      ['not (isHead and doesSleepOn(heads))', 'true'],
      'where it is added',
    ],
    [
      'rated-head-that-sleeps-on-is-passed-over',
      ['taken == head or woken and woken[head.jobKey]', 'true'],
      'leaves its slots to the others',
    ],
    ['moved-job-takes-a-free-slot', 'never', 'where its priority changes'],
    ['moved-job-takes-a-free-slot', 'always', 'asks for no slot that is in use'],
    ['cancelled-job-waits-for-nothing', 'removed', 'wait for neither'],
    [
      'obliterated-parent-waits-for-no-child',
      ["BASE .. 'waiting-children'", "BASE .. 'none'"],
      'obliterate leaves no parent',
    ],
    ['lost-mark-is-left-again', 'never', 'mark that is lost'],
    [
      'due-job-could-start',
      ["redis.call('ZCOUNT', DELAYED, '-inf', '(' .. dueBefore) > 0", 'false'],
      'for a delayed job that is due',
    ],
    [
      'ready-job-is-looked-for',
      ["redis.call('EXISTS', SPACE .. 'ready') == 1", 'false'],
      'for a job with a share',
    ],
    ['no-mark-where-nothing-waits', 'removed', 'a fetch leaves a mark'],
    ['no-mark-where-nothing-waits', ['not isAnyReady()', 'true'], 'a fetch leaves a mark'],
    ['as-many-heads-as-slots', ['<', '<='], 'and wakes one job'],
    ['turn-only-at-the-head', 'removed'],
    ['woken-at-the-head-of-all-lines', 'removed'],
    [
      'fetched-job-is-at-the-head',
      ["and 'yes' or 'no'", "and 'yes' or 'yes'"],
      'is put back in line',
    ],
    ['parked-only-behind-others', 'always'],
    [
      'first-write-needs-no-memory',
      ['if ', "redis.call('HSET', head.jobKey, 'delay', 0)\n    if "],
      'wakes the next one when the server has no memory',
    ],
    ['removed-job-sleeps-no-more', 'removed', 'needs one command more for each'],
    ['removed-job-wakes-the-next', 'removed', 'the next job is awake at once'],
    ['job-that-leaves-wakes-the-next', 'removed', 'the next job is awake at once'],
    ['parent-leaves-while-it-waits', 'never', 'a parent leaves them'],
    ['failed-job-holds-its-line', 'removed', 'holds the line until the failed job'],
    ['job-that-never-ran-holds-its-line', [' or job.lines', ''], 'holds the line of a parent'],
    ['no-job-passes-one-that-holds', 'removed', 'holds the line also against'],
    [
      'error-of-one-job-harms-no-other',
      ['pcall(run, i)', 'true, run(i)'],
      'the error of one job harms no other',
    ],
    ['running-job-keeps-its-lease', 'always', 'when an answer about waiters comes late'],
    ['spent-burst-asks-for-waiters', 'never', 'than a burst, while nobody waits'],
    [
      'refused-job-waits-longer',
      ['2 **', '0 *'],
      'waits for few jobs that are longer than a burst',
    ],
    [
      'refused-job-waits-longer',
      ['WAIT_MS', 'waitMs'],
      "for their resource in place with order: 'relaxed'",
    ],
    ['few-jobs-wait-longer', 'never', 'a quarter of the slots wait longer'],
    ['few-jobs-wait-longer', ['lines ? 1', 'lines ? 0'], 'one of few slots waits longer'],
    ['one-of-few-slots-gives-way', 'never', 'gives way to a job that could start'],
    [
      'spent-burst-releases-its-lease',
      ['!== true', '!== null'],
      'two queues of one resource take turns',
    ],
    ['held-line-loses-no-job', ['blocks ?', 'blocks && false ?'], 'holds the line also'],
    ['script-joins-no-older-pipeline', 'removed', 'joins no pipeline that was made before'],
  ],
  'line/full-lines': [
    ['rejected-call-does-nothing-later', 'removed', 'adds nothing more once'],
    ['scheduled-job-is-not-dropped', ['(owner[1] or owner[2])', 'owner[1]'], 'of a scheduler'],
    ['ready-job-is-not-dropped', 'removed', 'with shares'],
    [
      'room-is-made-in-the-order-of-adds',
      ['this.#lastAdd.then(add)', 'add()'],
      'keeps the order of one addBulk',
    ],
    [
      'add-that-dropped-is-not-refused',
      ['id === dropped', "dropped !== ''"],
      'is made as short for the next job',
    ],
    ['started-job-is-not-dropped', [' and job.held ~= RESTS', ''], 'was started'],
    ['full-line-takes-no-job', 'never', 'refuses a job'],
  ],
  'worker/coordination': [
    ['pause-waits-while-the-breaker-is-open', 'never', 'a pause waits for the jobs that run'],
    ['fresh-needs-a-known-place', 'never', 'moved to the front'],
    [
      'result-is-as-old-as-its-own-computation',
      [
        "redis.call('HGET', ARGV.store, 'began:' .. ARGV.lease)",
        "redis.call('GET', SPACE .. 'seq')",
      ],
      'is as old as its own computation',
    ],
    [
      'stopped-job-uses-no-attempt',
      ['isGivenBack(stop.reason)', 'false'],
      'stops them at its limit',
    ],
    [
      'leaving-worker-starts-no-job',
      ['this.isLeaving || ', ''],
      'requeues a job that still asks the lock masters',
    ],
    [
      'one-computes-a-result',
      ['results.keyOf(store)', "results.keyOf(store + (visit.job.id ?? ''))"],
      'compute it once',
    ],
    ['step-has-a-name', 'never', 'whose name does not come back'],
    ['given-up-job-keeps-no-result', 'removed', 'given up keeps no other'],
    ['steps-belong-to-the-run-with-the-lock', 'always', 'an older run cannot'],
    ['only-a-larger-token-goes-on', ['>', '<'], 'an older holder cannot'],
    [
      'tokens-of-one-lease-are-compared',
      ["ARGV.store, 'token:' .. ARGV.lease", "ARGV.store, 'token:r'"],
      'tokens of two slots',
    ],
    ['fresh-needs-a-place', 'never', '`fresh`'],
    ['stale-holder-claims-nothing', 'removed', 'an older holder cannot overwrite'],
    ['stale-holder-stores-nothing', 'removed', 'an older holder cannot overwrite'],
    [
      'who-reads-claims',
      ["'token:' .. ARGV.lease, ARGV.fencingToken, ", ''],
      'an older holder cannot overwrite',
    ],
  ],
  'line/limits': [
    ['rejected-call-does-nothing-later', 'removed', 'that is refused for one job'],
    [
      'limits-change-in-the-order-of-calls',
      [
        'await this.#change(named(resource), kinds)',
        'for (const kind of kinds) await this.#change(named(resource), [kind])',
      ],
      'follows a resume without await',
    ],
    [
      'held-job-stands-before-those-that-sleep',
      ['tonumber(ASLEEP_DELAY)', 'math.huge'],
      'of a pause stop the line',
    ],
    ['no-delay-reaches-those-that-sleep', ['- 2', '* 2'], 'the longest delay'],
    ['slots-that-are-set-count', ['limits.areSet = entry.slots, true', '_ = SLOTS']],
    ['closed-line-starts-nothing', 'removed', 'keeps jobs that were awake already'],
    [
      'rate-of-one-resource',
      [
        'local rate = set or',
        'if set then limit, perMs, burst = set.limit, set.perMs, set.burst end local rate =',
      ],
      'of one resource does not hold back',
    ],
    ['start-counts-for-the-rate', 'removed', 'is used up to its end'],
    ['drained-when-no-job-sleeps', 'never', 'is not drained'],
    ['cost-above-the-burst-is-saved', ['savings[key] = account', ''], 'costs more than the burst'],
    ['resting-job-wakes-with-its-resources', 'removed', 'starts again when that is resumed'],
    ['cancel-of-one-run', 'always', 'stops no other job that has the same id'],
    ['next-job-of-a-scheduler-stays', 'never', 'does not end a scheduler'],
    ['cancelled-job-is-not-retried', 'removed', 'stops the one that runs'],
  ],
  'worker/locked-queue': [
    ['deadline-goes-with-the-sleep', 'never', 'nothing of it is kept'],
    [
      'scheduled-job-without-a-line-waits-in-place',
      ['lines === undefined', 'lines === null'],
      'adds no more in a plain worker',
    ],
    [
      'closing-worker-keeps-no-scheduled-job',
      [' && workerOf(job)?.closing === undefined', ''],
      'a plain worker closes while',
    ],
    ['job-that-ends-adds-the-next-of-its-scheduler', 'removed', 'a scheduler goes on'],
  ],
  'bad-input/queue': [
    ['template-names-its-resource', 'removed', 'neither the job, its batch nor its scheduler'],
  ],
  'compatibility/order': [
    ['priority-orders-a-line', 'always', 'priorities within a customer mean'],
    [
      'due-job-joins-by-its-priority',
      ['ranked and rankOf(priority or 0, seq)', 'nil'],
      'delayed jobs that are promoted or due',
    ],
  ],
  'line/batches': [
    [
      'moved-job-needs-no-lock',
      ['answer !== false', 'false'],
      'goes on without a job that the processor',
    ],
    [
      'batch-ends-at-a-job-that-may-not-start',
      [' or not job.asleep or job.held', ' or job.held'],
      'before a job that is delayed',
    ],
    [
      'batch-ends-at-a-job-that-may-not-start',
      ['areSeveral(job.lines) or ', ''],
      'before one of several resources',
    ],
    ['moved-job-stays-where-it-is', 'never', 'leaves a job that has moved itself'],
    ['leaving-worker-fills-no-batch', ['!source.fetches() || ', ''], 'takes no more jobs after'],
    [
      'stopped-batch-gives-its-jobs-back',
      [
        "if (lease.signal.aborted) throw new NotStarted('It was stopped before it began')",
        'lease.signal.throwIfAborted()',
      ],
      'where its first job loses',
    ],
    [
      'stopped-batch-gives-its-jobs-back',
      'never',
      'does not begin where its worker stops its jobs',
    ],
    ['batch-that-is-over-starts-no-job', 'removed', 'where its first job loses'],
    ['cancel-does-not-stop-its-batch', 'always', 'one of its jobs is cancelled'],
  ],
  'worker/visits': [
    ['answer-about-waiters-ages', ['this.#burstMs', 'Infinity'], 'keeps its lease'],
    ['lost-lock-is-of-an-earlier-run', ['<= askedAt', '>= 0'], 'is not stopped by the lost lock'],
    ['job-that-is-over-keeps-none-waiting', 'removed', 'keeps no job waiting'],
  ],
  'line/shares': [
    ['tenant-comes-back-without-credit', ['math.max(used, time or 0)', 'used']],
    ['held-job-with-a-share-is-woken', 'removed', 'starts when that ends early'],
    ['ready-jobs-by-their-priority', 'never', 'that they were given later'],
    ['work-counts-by-weight', [' / weight', ''], 'weights'],
    ['start-counts-for-its-tenant', 'removed', 'takes them from tenants in turn'],
    ['due-job-of-a-closed-line-is-held', 'removed', 'starts when the pause ends'],
    ['ready-job-sleeps', ['score and tonumber(score) >= ASLEEP', 'score'], 'waits for its backoff'],
    ['resumed-queue-looks-for-ready-jobs', ['isAsleep: true', ''], 'a queue that is resumed'],
    [
      'forgotten-tenant-stays-forgotten',
      ['return', "redis.call('HSET', META, TIME_FIELD, 0) time = 0"],
      'after its queue was obliterated',
    ],
  ],
  'compatibility/worker': [
    ['forced-close-gives-back-what-waits', 'removed', 'or goes back'],
    [
      'resumed-worker-is-paused-no-more',
      ["unlessTold(super.pause(doNotWaitActive), this, 'resumed')", 'super.pause(doNotWaitActive)'],
      'is resumed while a job runs',
    ],
  ],
  'compatibility/flows': [
    [
      'scheduled-parent-is-known-by-its-key',
      ['${ID_OF_SCHEDULED} or ', ''],
      'of which the last is removed',
    ],
    ['old-place-is-taken-again-once', 'removed', 'has waited for its children puts it behind'],
  ],
  'compatibility/added-again': [
    ['added-job-is-there-for-the-next-call', 'removed', 'finds the job'],
    ['what-was-added-is-sent-before-the-end', 'removed', 'queue.close without await'],
  ],
  'compatibility/plain-queue': [
    ['started-job-adds-the-next-of-its-scheduler', 'removed', 'a scheduler that is faster'],
  ],
  'compatibility/by-hand': [
    ['job-fetched-by-hand-comes-in-turn', 'always', 'whose delay has ended'],
    ['job-fetched-by-hand-adds-the-next-of-its-scheduler', 'removed', 'the next one is added'],
    [
      'reply-that-asked-nothing-says-nothing',
      ['asksNone && ', 'false && '],
      'a job that ends and asks for no other',
    ],
    [
      'retry-without-a-job-says-nothing',
      ['found?.length === 0 ? undefined : ', ''],
      'a job that is tried again later',
    ],
  ],
  'compatibility/events': [
    [
      'worker-is-drained-once-when-no-job-sleeps',
      [' || asleep !== 0', ''],
      'drained comes once after',
    ],
    [
      'worker-is-drained-once-when-no-job-sleeps',
      ['this.#toldDrained || ', ''],
      'drained comes once for each time',
    ],
    ['given-job-ends-what-was-drained', 'never', 'drained comes once for each time'],
  ],
  'worker/queue-trouble': [
    ['job-without-a-lock-ends-on-a-full-server', 'removed', 'ends on a full server'],
    ['refused-end-fails-no-job', 'always', 'is taken when the server'],
    [
      'unanswered-end-is-sent-again',
      ['isAway(error)', 'says(error, PASSING, UNANSWERED)'],
      'is taken when the server',
    ],
    ['refused-fetch-leaves-the-process-time', 'removed', 'has time for all else'],
    ['denied-script-writes-nothing', 'never', 'denied one command of the scripts'],
    ['rights-are-asked-for-after-a-refusal', 'never', 'denied one command of the scripts'],
    ['rights-are-asked-for-after-a-connection', 'removed', 'denied one command of the scripts'],
    ['version-is-asked-until-answered', 'removed', 'while BullMQ asks for its version'],
    ['client-between-two-tries-goes-on', 'always', 'that is paused while its server is'],
    ['client-ends-between-two-tries', 'removed', 'while it is paused and was never'],
    ['resumed-worker-looks-for-stalled-jobs', 'removed', 'looks for stalled jobs, and does'],
    ['closed-worker-connects-no-more', 'removed', 'paused and resumed while its server'],
    ['client-of-a-closed-worker-ends', 'removed', 'while its client connects anew'],
    ['close-waits-for-no-silent-server', ['limitMs, closed', '1e9, closed'], 'closes while its'],
    [
      'close-waits-while-the-server-answers',
      ['receivedBy(backend) > received', 'received < 0'],
      'closes when its slow server',
    ],
    ['given-client-is-left-to-its-owner', ['=== true', '=== null'], 'that it was given'],
    ['closing-worker-ends-its-pauses', [' ?? (this.#closing as never)', ''], 'closes at once'],
  ],
  'worker/queue-cuts': [
    ['result-that-is-not-stored-ends-its-job', 'always', 'whose end the server refuses for longer'],
    ['done-job-ends-without-its-lock', 'never', 'of one resource'],
    ['checks-after-a-silence-only-mark', ['now - last >', 'now - now >'], 'of one resource'],
    [
      'only-the-last-run-ends-without-its-lock',
      ['== job.run', "~= ''"],
      'is not ended by its first run',
    ],
    [
      'silences-in-a-row-are-not-all-spared',
      ['silences > MOST_SILENCES', 'false'],
      'every check is late',
    ],
    ['spared-time-is-near', 'never', 'set its clock back'],
    ['spared-job-is-soon-looked-at', 'never', 'checks are rare'],
    ['spared-time-is-long-enough', ['3000', '1'], 'does not leave its client'],
    ['returned-server-is-soon-found', ['MAX_RECONNECT_MS', 'Infinity'], 'two seconds at most'],
    ['command-is-given-up-no-sooner', ['Math.ceil', '0 * Math.ceil'], 'no sooner than with plain'],
    [
      'unanswered-end-is-sent-again',
      ['isAway(error)', 'refuses(error)'],
      'does not leave its client',
    ],
  ],
  'tools/cli/refusing-queue': [
    [
      'all-connections-are-back',
      ['backends.every(isConnected)', 'true'],
      'on one connection of two',
    ],
    ['silent-server-is-not-back', 'removed', 'silent on open connections'],
  ],
  'stories/queue-failover': [
    [
      'replica-is-left',
      ["message.startsWith('READONLY') &&", 'false &&'],
      'a name that leads to another',
    ],
  ],
  'worker/crash': [
    ['crashed-job-runs-again-soon', ['leaseMs', '30_000']],
    ['job-that-may-run-elsewhere-does-not-start', 'never', 'does not repeat'],
  ],
  'worker/locked-worker': [
    [
      'token-goes-back-to-its-own-time',
      ['limitEndsAt() <', 'true or limitEndsAt() <'],
      'of the rate limit that has ended',
    ],
    ['step-extends-the-lease', ['< FRESH', '< -FRESH'], 'extends the lease, passes the signal'],
    ['lost-lock-stops-its-job', 'removed', "aborts when BullMQ's lock on the job is lost"],
    ['cancelled-job-does-not-start', 'removed', 'starts no job that is cancelled while it'],
    ['cancelled-job-does-not-go-back', 'never', 'ends a job that waits for'],
    [
      'each-worker-has-its-own-jobs',
      ['(worker: object)', '(_: object, worker: object = runsOfWorkers)'],
      'another queue has one with the same id',
    ],
    ['job-that-is-not-new-is-asked-for', 'removed', 'plain worker that stood still'],
    ['job-that-is-given-again-has-lost-its-lock', 'never', 'own worker is given the job again'],
    ['later-run-keeps-its-lock', 'never', 'keeps the lock of a later run'],
    [
      'what-is-said-of-a-job-is-no-older-than-its-state',
      ['await sources.lines.getJobData(id)', 'job as unknown as JobJson'],
      'while it is asked',
    ],
  ],
  'worker/ending': [
    ['open-step-holds-the-lease', 'removed', 'holds the lease'],
    ['open-step-fails-the-job', 'never', 'holds the lease'],
    ['forgotten-extension-ends-no-process', 'removed', 'nobody waits for'],
    ['lost-job-does-not-stand-in-its-line', 'never', 'for as long as its process'],
    ['leaving-worker-waits-for-no-lease', 'removed', 'at once that waits for its lease'],
    ['leaving-worker-is-not-resumed', 'removed', 'is not resumed'],
    ['leaving-worker-starts-no-job', ['this.isLeaving || ', ''], 'starts no job'],
    ['leaving-worker-takes-no-mark', 'removed', 'waits for no mark'],
    ['forced-close-waits-for-no-job', ['force ? 0 : ', ''], 'lets its process end'],
  ],
  'worker/pure': [
    [
      'sleeps-no-longer-than-an-outage',
      ['Math.min(outcome.retryAfterMs, maxUnreachableMs)', 'outcome.retryAfterMs'],
      'no longer than in an outage',
    ],
    ['first-reason-counts', ['??=', '='], 'reports an earlier abort'],
  ],
  'worker/clocks': [
    ['due-by-the-clock-of-the-server', 'never', 'is given back'],
    ['promoted-by-the-clock-of-the-server', 'removed', 'a delay ends by'],
    [
      'parent-is-due-by-the-clock-of-the-server',
      ['(math.floor(nowMs()) - endsAt)', '0'],
      'the delay of a parent',
    ],
    ['delay-by-the-clock-of-the-server', 'never', 'a delay ends by'],
    ['waits-by-its-own-clock', ['delayUntil + this.#aheadMs', 'delayUntil'], 'a delay ends by'],
    ['wait-is-counted-from-when-it-could-start', ['from or ', ''], 'a job waits no longer'],
    ['job-without-a-turn-goes-back', 'removed', 'waits for a shared result'],
    ['requeued-job-goes-on-waiting', 'never', 'waits no shorter for a lease'],
    [
      'wait-of-a-parent-begins-without-its-children',
      'never',
      'that waited for children of a plain queue',
    ],
    ['job-that-has-run-has-waited', ['hasRun', 'false'], 'a job that has run'],
    ['clock-ahead-is-not-ready', ['< quorum', '< 0'], 'masters refuse'],
    ['limits-end', 'always', 'a limit ends, and is told'],
    ['limits-end-by-the-clock-of-the-server', ['nowMs() + ', ''], 'a limit ends, and is told'],
    ['scheduler-by-the-clock-of-the-server', 'removed', 'a scheduler begins'],
  ],
  'deploy/acl': [
    ['record-survives-as-leases-do', 'removed', 'that loses what scripts wrote is noticed'],
  ],
  'tools/operator/resize': [
    ['closed-master-enrols-no-client', 'removed', 'nothing is granted until'],
    [
      'closed-master-is-of-no-fleet',
      ["'fleetSize', '0'", "'fleetSize', ARGV[3]"],
      'nothing is granted until',
    ],
    ['token-above-those-before-a-resize', 'removed', 'the clock of a later client'],
    ['floor-above-every-counter', [' + TOKENS_PER_GRANT', ' * 0'], 'the clock of a later client'],
    [
      'old-leases-are-over-before-masters-open',
      ['quarantineMs(leftMs, DRIFT_FACTOR)', '0'],
      'a lease of the old fleet',
    ],
    [
      'floor-above-expired-counters',
      ['maxLeaseMs / 2 - fenceTtlMs', '-Infinity'],
      'whose counters had expired',
    ],
    [
      'leases-are-as-long-as-the-closed-masters-say',
      ['...outstanding.map((one) => one.longestMs)', '0'],
      'who planned before another',
    ],
    [
      'leases-of-forgotten-openings-are-over',
      ['resumes ? to.maxLeaseMs : 0', '0'],
      'leases of masters that were opened and forgot',
    ],
    ['what-was-forgotten-stays-forgotten', 'never', 'that forgot leases is known'],
    [
      'masters-of-both-fleets-open-first',
      ['true', 'false'],
      'those that are open are the new fleet',
    ],
    ['forgotten-master-is-not-opened-again', 'removed', 'lost its memory is not opened again'],
    [
      'all-goals-but-one-are-replaced',
      ['begun.filter((one) => one !== goal)', '[]'],
      'while one replaces another',
    ],
    [
      'refused-client-remembers-it',
      [' && (others.length > 0 || voter.knowsUs !== false)', ''],
      'does not take a master',
    ],
    [
      'resized-fleet-has-its-own-terms',
      ['leaseTerms({}, settings)', 'this.#usualTerms'],
      'leases are as long as the fleet allows',
    ],
    [
      'no-lease-is-longer-than-its-fleet-allows',
      ['> maxLeaseMs', '> Infinity'],
      'leases are as long as the fleet allows',
    ],
    [
      'who-founds-is-known-now',
      ["&& result.reply[0] !== 'unenrolled'", ''],
      'a client that has not heard',
    ],
    ['follower-founds-no-fleet', 'never', 'a follower founds no fleet'],
  ],
  'tools/operator/answers': [
    ['job-behind-others-waits-for-its-turn', [" || state === 'held'", ''], 'one was resumed'],
    ['time-is-told-where-nothing-else-keeps-a-job', 'removed', 'its rate is used up'],
    [
      'no-estimate-while-the-line-stands',
      ['stands || ', ''],
      'behind one that waits for its backoff',
    ],
    [
      'no-estimate-while-the-queue-stands',
      ['if (await queueStands()) ', 'if (false) '],
      'no worker',
    ],
  ],
  'worker/queue-cluster': [
    ['closed-cluster-is-connected-again', 'never', 'a busy worker pauses when'],
    [
      'node-that-refuses-the-login-is-one-of-several',
      ['[NO_LOGIN]', '[]'],
      'nodes that refuse the login',
    ],
    [
      'cluster-is-back-when-it-is-ready',
      ['client === undefined', 'client !== null'],
      'that pauses while the cluster is down',
    ],
    [
      'no-script-runs-while-its-slot-moves',
      ["keyIn(base, 'absent')", '`${base}meta`'],
      'while the slot of a queue moves',
    ],
  ],
  'line/names': [
    ['no-job-has-the-name-of-our-keys', [':::', ':'], 'whose id is the name'],
    ['no-queue-has-the-keys-of-its-locks', 'never', 'is refused'],
  ],
  'tools/cli/sentinel': [
    ['closed-queue-leaves-its-sentinels', ["client?.status === 'end'", 'false']],
  ],
  'tools/cli/readers': [
    [
      'log-waits-for-no-reader',
      [
        'if (',
        "if ((createRequire(import.meta.url)('node:fs') as typeof import('node:fs')).writeSync(2, line) < 0 || ",
      ],
      'stands still',
    ],
  ],
  'worker/another-copy': [
    ['errors-of-another-copy-are-known', ['isOurs === true', 'false'], 'goes on after'],
  ],
  'fenced/fenced': [
    ['stale-update-matches-no-row', ['} <= ${limit}', '} >= 0'], 'refuses an older'],
    ['stale-write-matches-no-row', ['} <= excluded.', '} <> excluded.'], 'refuses an older'],
    ['stale-commands-do-not-run', 'removed', 'refuse an older write'],
    [
      'no-write-without-a-token',
      [
        "integerOption('lease.fencingToken', fencingToken, 0, Number.MAX_SAFE_INTEGER)",
        'fencingToken',
      ],
      'comes without a token',
    ],
    ['missing-row-is-not-stale', 'never', 'a duplicate in another unique'],
    ['fenced-commands-have-their-own-keys', 'never', 'need the whole names'],
    ['fenced-command-fits-into-its-script', 'removed', 'run none where one is too long'],
    ['stale-object-is-not-written', 'never', 'refuse an older write'],
    ['refused-write-writes-nothing', ['INSERT', 'REPLACE'], 'refuse an older write'],
    ['refused-write-writes-nothing', ['INSERT', 'INSERT IGNORE'], 'a value does not fit'],
  ],
  'sharded/sharded-queue': [
    ['resources-of-a-job-are-in-one-shard', 'always', 'resources of a job'],
    ['number-of-shards-does-not-change', 'never', 'another number of shards'],
    [
      'calls-of-shards-keep-their-order',
      ['this.after([id], call)', 'call()'],
      'calls without await',
    ],
    ['scheduler-is-in-one-shard', 'removed', 'a scheduler is in'],
    ['moved-scheduler-leaves-no-job', 'never', 'a scheduler is in'],
    ['refused-scheduler-stays-as-it-was', ['await this', 'this'], 'a scheduler whose move'],
    ['bulk-is-refused-as-a-whole', 'removed', 'addBulk adds none'],
    ['listener-waits-for-the-first-shard', 'removed', 'another number of shards'],
    ['scheduler-that-two-calls-move-is-there', 'always', 'a scheduler that several'],
    ['refused-obliterate-removes-nothing', 'removed', 'obliterates all or nothing'],
    ['flow-is-in-one-shard', 'never', 'a flow within a shard'],
    ['id-names-the-shard-of-its-job', 'never', 'an id of another shard'],
    ['shard-runs-no-job-of-another', 'always', 'a worker fails a job'],
    ['locks-of-shards-are-told-apart', 'always', 'bad options'],
    [
      'silent-server-keeps-no-permit',
      ['PATIENCE_MS', 'Infinity'],
      'leaves its share of the concurrency',
    ],
    ['refusing-server-keeps-no-permit', ['??=', '='], 'a node that gives no jobs'],
    [
      'job-that-waits-for-an-answer-keeps-no-permit',
      ["visits?.waiting(job?.id ?? '')", 'undefined'],
      'leaves its share',
    ],
  ],
  'deploy/tls': [['late-error-ends-no-process', 'never', 'ends no process']],
  'sharded/start': [
    ['open-call-keeps-no-process', 'removed', 'leaves no timer'],
    ['worker-waits-for-the-first-shard', 'removed', 'another number'],
  ],
  'sharded/calls-in-outages': [
    ['error-names-its-shard', ['isAway(error)', 'false'], 'refuses'],
    ['silent-shard-ends-its-call', ['PATIENCE_MS', '1e6'], 'hangs'],
    ['old-refusal-is-forgotten', 'never', 'too many'],
    ['refusal-of-a-shard-is-told', ['=== undefined', '!== 0'], 'takes no more clients'],
    ['position-waits-for-no-other-node', ['CLIENTS_LIMIT_MS', '1e6'], 'an estimate waits'],
    ['listener-outlives-a-refusal', 'removed', 'refuses the login'],
    ['silent-node-is-one-of-several', ['isCluster()', 'false'], 'what starts while a node hangs'],
    ['listener-goes-on-without-a-name', ['NAME_MS', '1e6'], 'what starts while a node hangs'],
    ['listener-goes-on-without-a-name', ['.catch(this.#tell)', ''], 'refuses the login'],
  ],
  'sharded/concurrency': [
    [
      'busy-shard-leaves-others-their-share',
      ['held.size + 1 < size', 'false'],
      'a shard that gets work',
    ],
    ['busy-shard-leaves-others-their-share', ['held.size === 0', 'false'], 'with one permit'],
    ['shard-that-waits-takes-one-permit', 'removed', 'a shard that waits takes'],
    ['next-job-waits-for-no-permit', 'removed', 'a shard goes on from job'],
    ['process-without-a-permit-leaves-the-mark', 'removed', 'a permit that comes free'],
  ],
  'services/postgres/postgres-locks': [
    ['new-connection-breaks-no-process', 'removed', 'ends a session in the turn'],
    ['unanswered-commit-is-unknown', 'always', 'says that it may have committed'],
    ['rolled-back-commit-is-no-success', 'always', 'rejects where PostgreSQL rolls it back'],
    [
      'session-that-is-cut-off-is-opened-again',
      ['limit)', '{ ...limit, requestTimeoutMs: Infinity })'],
      'behind a silent cut',
    ],
    ['silent-server-keeps-no-session', ['END_LIMIT_MS', 'Infinity'], 'closes while the server'],
    [
      'postgres-answer-that-came-in-time-counts',
      [
        'withinMs(clock, requestTimeoutMs, client.query(query))',
        'client.query({ ...query, query_timeout: requestTimeoutMs } as PgQuery)',
      ],
      'an answer that came while the process',
    ],
    [
      'silent-server-delays-no-rollback',
      ['inTime(client, ', 'client.query('],
      'without limits of the pool',
    ],
    ['token-above-deleted-rows', [" AND resource = ''", ' AND false'], 'over deleted rows'],
    [
      'followed-lease-begins-no-transaction',
      ['fencing_token = $3', '$3 > 0'],
      'begins under no lease',
    ],
    [
      'transaction-locks-all-rows',
      ['(namespace, resource) DO UPDATE SET resource = excluded.resource', 'DO NOTHING'],
      'locks every row',
    ],
  ],
  'services/etcd/etcd-locks': [
    ['bad-line-ends-its-watch', ['} catch {', '} finally {'], 'has an error line'],
    [
      'ended-watch-wakes-no-waiter',
      ['heard, stop', 'heard, () => (stop(), wake())'],
      'ends at once',
    ],
    ['endpoint-of-another-cluster-has-failed', 'never', 'has failed from the moment'],
    ['refused-login-is-tried-again', 'removed', 'a password that is set later'],
    ['only-etcd-refuses', ['code > 0 && code <= MAX_CODE', "'error' in said"], 'ready says why'],
    [
      'endpoint-of-another-cluster-has-failed',
      ['!== id', '!== (id ?? this.#clusterId)'],
      'an endpoint that answers with',
    ],
    ['client-of-one-cluster', 'never', 'gets no lease of a client'],
    ['namespaces-do-not-nest', ['%/', '%'], 'namespaces that nest'],
    ['refused-release-is-repeated', ['...limits', 'retries: 0'], 'that the network lost'],
    [
      'member-that-is-late-may-answer',
      ['Promise.race([last, Promise.any(asked)])', 'last'],
      'members that are late',
    ],
    ['attempt-without-a-key-is-not-undone', 'always', 'written no key'],
    ['ready-takes-a-lease', 'removed', 'ready says why'],
  ],
  'services/lock-client': [
    ['call-that-outlives-its-client-says-so', 'removed', 'while its client closes'],
    ['attempt-that-fails-late-is-abandoned-again', 'removed'],
    ['attempt-that-goes-on-is-abandoned-once', ['!goesOn', 'true'], 'is abandoned once'],
    ['closed-service-wakes-its-waiters', 'removed', 'wakes its waiters'],
  ],
  'services/zookeeper/zookeeper-locks': [
    ['session-is-longer-than-its-relays', 'never', 'is too short for'],
    ['inspection-tells-why-none-is-granted', 'always', 'is too short for'],
    [
      'granted-lease-is-within-its-limit',
      ['Math.min(leaseMs, terms.maxHoldMs + ageMs)', 'leaseMs'],
      'longer than it may be',
    ],
    [
      'answer-that-throws-is-none',
      ['callback', 'unanswered.delete(answered)\n      callback'],
      'an error that the library does not know',
    ],
    [
      'waiter-keeps-one-place',
      ['waiter?.attempt === wish.token', 'waiter'],
      'a waiter leaves no node of an attempt',
    ],
    ['waiter-keeps-one-place', [' && paths.length === 1', ''], 'holds none of them'],
    ['abandon-writes-before-it-reads', 'removed', 'moved to a server that lags'],
    ['connection-begins-without-a-rest', 'removed', 'a reply that is cut after'],
    ['forgotten-request-is-lost', 'never', 'an answer to another request'],
    [
      'bad-reply-ends-its-connection',
      ['} catch {', '} catch (error) {\n      throw error'],
      'a short reply',
    ],
  ],
  'bad-input/secrets': [
    ['refused-value-shows-no-secret', ['shownValue(value)', 'value']],
    ['usage-error-shows-no-secret', ['shownValue(one)', 'one']],
    ['refused-login-shows-no-password', 'never'],
  ],
}

/**
 * The simulation must notice, in worlds that are drawn at random. Without some of these rules it
 * finds two holders or a smaller token in one world of some hundreds: those have more worlds.
 */
const BY_SIMULATION: readonly (readonly [string, Change, Killer])[] = [
  ['fresh-token-per-attempt', ['this.#serial++', 'this.#serial'], { seeds: 300 }],
  ['trust-from-before-the-first-command', ['(start', '(end'], { seeds: 300 }],
  ['nested-calls-have-the-same-slots', 'never', { seeds: 500 }],
  [
    'longer-trust-is-of-one-instant',
    [
      'b.until >= a.until ? b : a',
      '{ until: Math.max(a.until, b.until), wallUntil: Math.max(a.wallUntil, b.wallUntil) }',
    ],
    { seeds: 500, clocks: 'jumps' },
  ],
  [
    'durable-means-every-write-waits',
    ["(await setting(redis, 'no-appendfsync-on-rewrite')) === 'no'", 'redis !== undefined'],
    { seeds: 3000, clocks: 'sane' },
  ],
  ['master-out-of-line-grants-nothing', 'never', { seeds: 3000, clocks: 'stepped' }],
]

/** What holds whatever people combine: the combinations must notice, in episodes that are drawn. */
const BY_COMBINATION: readonly (readonly [string, Change])[] = [
  ['held-resource-is-not-granted', 'removed'],
  ['turn-only-at-the-head', 'removed'],
  ['parked-only-behind-others', 'always'],
  ['woken-at-the-head-of-all-lines', 'removed'],
  ['failed-job-holds-its-line', 'removed'],
  ['full-line-takes-no-job', 'never'],
  ['scheduled-job-is-not-dropped', ['(owner[1] or owner[2])', 'owner[1]']],
  ['deleted-job-leaves', 'never'],
  ['job-without-a-share-is-not-ready', 'removed'],
  ['closed-line-starts-nothing', 'removed'],
  ['start-counts-for-the-rate', 'removed'],
  ['slots-that-are-set-count', ['limits.areSet = entry.slots, true', '_ = SLOTS']],
  ['cancelled-job-is-not-retried', 'removed'],
  ['stopped-job-uses-no-attempt', ['isGivenBack(stop.reason)', 'false']],
  ['as-many-heads-as-slots', ['<', '<=']],
  ['checkpoints-of-one-instance', 'never'],
  ['promoted-by-the-clock-of-the-server', 'removed'],
  [
    'rate-of-one-resource',
    [
      'local rate = set or',
      'if set then limit, perMs, burst = set.limit, set.perMs, set.burst end local rate =',
    ],
  ],
  [
    'one-computes-a-result',
    ['results.keyOf(store)', "results.keyOf(store + (visit.job.id ?? ''))"],
  ],
  ['fresh-needs-a-place', 'never'],
  ['started-job-adds-the-next-of-its-scheduler', 'removed'],
  ['leaving-worker-starts-no-job', ['this.isLeaving || ', '']],
  ['open-step-holds-the-lease', 'removed'],
  ['open-step-fails-the-job', 'never'],
]

export const mutants: readonly Mutant[] = [
  ...Object.entries(BY_TEST).flatMap(([file, rows]) =>
    rows.map(([rule, change, name]) => {
      const test = `test/${file}.test.ts`
      return { rule, change, killedBy: name === undefined ? { test } : { test, name } }
    }),
  ),
  ...BY_SIMULATION.map(([rule, change, killedBy]) => ({ rule, change, killedBy })),
  ...BY_COMBINATION.map(([rule, change]) => ({ rule, change, killedBy: { episodes: 200 } })),
]
