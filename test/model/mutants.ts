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

/** @param killer the simulation; or a file of tests, and after a colon a part of a title. */
function mutant(rule: string, change: Change, killer: string | Killer): Mutant {
  if (typeof killer !== 'string') return { rule, change, killedBy: killer }
  const [file = '', name] = killer.split(': ')
  const test = `test/${file}.test.ts`
  return { rule, change, killedBy: name === undefined ? { test } : { test, name } }
}

const GRANT = 'redlock/wire/grant-scripts'
const RENEWAL = 'redlock/wire/renewal-scripts'
const ENROL = 'redlock/wire/enrolment-scripts'
const ABANDONED = 'sim/abandoned-attempts'
const CUTS = 'worker/queue-cuts'

const lock: readonly Mutant[] = [
  mutant(
    'told-quarantine-is-still-on',
    'removed',
    'redlock/fleet/master-log: masters that are quarantined at once',
  ),
  mutant(
    'taken-slot-is-passed-over',
    ['=== outcome.resource', '=== undefined'],
    'redlock/coordination: the one free slot of each',
  ),
  mutant('quorum-is-a-majority', ['+ 1', ''], 'redlock/pure: two quorums always share a master'),
  mutant('masters-are-distinct', 'never', 'bad-input/unfit-masters'),
  mutant('fresh-token-per-attempt', ['this.#serial++', 'this.#serial'], { seeds: 300 }),
  mutant('trust-from-before-the-first-command', ['(start', '(end'], { seeds: 300 }),
  mutant('drift-margin', ['+ 2', '* 0'], 'lock/pure: is counted from the start of the attempt'),
  mutant(
    'either-clock-ends-trust',
    ['trust.wallUntil - at.wallNow', 'Infinity'],
    'lock/pure: is over when either clock says so',
  ),
  mutant(
    'longer-trust-is-of-one-instant',
    [
      'b.until >= a.until ? b : a',
      '{ until: Math.max(a.until, b.until), wallUntil: Math.max(a.wallUntil, b.wallUntil) }',
    ],
    'lock/pure: an extension after a clock was set',
  ),
  mutant('longer-trust-is-of-one-instant', ['? b : a', '? a : b'], 'lock/pure'),
  mutant('timer-checks-both-clocks', ['/', '*'], 'sim/lease-timer'),
  mutant('too-late-after-the-votes', 'never', 'hazards/expired-grants'),
  mutant(
    'answers-that-came-in-time-count',
    'never',
    'deadlines: an answer that came in time counts',
  ),
  mutant(
    'a-quorum-has-exactly-the-token',
    'never',
    'redlock/redlock: counters that differ are levelled on a quorum',
  ),
  mutant(
    'a-quorum-has-exactly-the-token',
    ['fleet.quorum', '1'],
    'sim/exact-counters: a quorum holds the token',
  ),
  mutant(
    'confirm-counts-the-exact-token',
    ['first === fencingToken', 'fencingToken > 0'],
    'sim/exact-counters: a counter that has gone on',
  ),
  mutant('confirm-only-my-key', 'removed', GRANT),
  mutant('unenrolled-grants-nothing', 'removed', GRANT),
  mutant('quarantined-grants-nothing', 'removed', GRANT),
  mutant('proposal-far-ahead-is-refused', 'removed', GRANT),
  mutant('abandoned-token-is-refused', 'removed', GRANT),
  mutant('held-resource-is-not-granted', [" 'NX',", ''], GRANT),
  mutant('counter-grows-with-every-grant', 'removed', GRANT),
  mutant('token-above-forgotten-ones', 'removed', 'hazards/wrong-clocks: a token is larger'),
  mutant('one-server-of-one-fleet', [' and record[3] == fleetSize', ''], GRANT),
  mutant('one-server-of-one-fleet', ['record[1] == runId and ', ''], GRANT),
  mutant('suspended-master-grants-nothing', 'never', 'redlock/replies'),
  mutant(
    'suspended-master-is-asked-the-time',
    ['master.ask(', 'if (this.#askedTheTime?.has(master.index) !== true) master.ask('],
    'sim/clock-returns',
  ),
  mutant(
    'every-master-passes-a-trial',
    'removed',
    'redlock/fleet/refusing-masters: one of three: the others grant',
  ),
  mutant(
    'refused-question-means-a-trial',
    'never',
    'redlock/fleet/refusing-masters: two of three: a client knows it',
  ),
  mutant(
    'idle-client-looks-at-its-masters',
    'removed',
    'redlock/fleet/refusing-masters: an idle client notices by itself',
  ),
  mutant('clock-jump-suspends', 'never', 'redlock/fleet/clock-watch'),
  mutant(
    'master-out-of-line-grants-nothing',
    'never',
    'hazards/wrong-clocks: a client that starts after',
  ),
  mutant(
    'master-out-of-line-extends-nothing',
    ['clocks.isOutOfLine(master)', 'master === undefined'],
    'hazards/wrong-clocks: an extension does not rest',
  ),
  mutant('extend-only-my-key', 'removed', RENEWAL),
  mutant('extend-only-without-a-later-grant', 'removed', RENEWAL),
  mutant('extend-creates-no-key', 'removed', RENEWAL),
  mutant('extension-never-shortens', [", 'GT'", ''], RENEWAL),
  mutant('healed-key-does-not-extend', 'removed', RENEWAL),
  mutant('reply-inside-the-old-trust', 'removed', 'sim/late-extension'),
  mutant('heal-only-my-key', 'removed', RENEWAL),
  mutant('heal-only-without-a-later-grant', 'removed', RENEWAL),
  mutant(
    'heal-only-after-a-quorum',
    ['poll.verdict', '(healMissing(), poll.verdict)'],
    'sim/healing',
  ),
  mutant(
    'release-on-every-master',
    [': call', ": callOf({ verb: 'release', resources: ['elsewhere'] })"],
    ABANDONED,
  ),
  mutant('release-only-my-key', ['if holders[i] then', 'if true then'], RENEWAL),
  mutant('tombstone-behind-another-connection', ['return unknown', 'return false'], ABANDONED),
  mutant('tombstone-is-announced', 'removed', RENEWAL),
  mutant('refused-attempt-wakes-no-waiter', [" and waitMs ~= '0'", ''], RENEWAL),
  mutant('waiter-has-one-place', ['other ~= i', 'other == 0'], GRANT),
  mutant(
    'holder-of-a-slot-waits-for-no-other',
    'removed',
    'redlock/coordination: leave no place where',
  ),
  mutant(
    'closed-client-keeps-no-place',
    'removed',
    'redlock/coordination: of a client that closes',
  ),
  mutant('new-run-id-is-quarantined', 'removed', ENROL),
  mutant('new-run-id-is-quarantined', ['known[1] ~= ARGV[1]', 'not known[1]'], ENROL),
  mutant(
    'each-loss-of-memory-begins-its-own-quarantine',
    [" .. '@' .. time[1] .. time[2]", ''],
    `${ENROL}: a quarantine of another name`,
  ),
  mutant('fleets-of-one-size', 'removed', ENROL),
  mutant('refused-client-founds-no-fleet', 'removed', ENROL),
  mutant('only-the-counted-quarantine-ends', 'removed', ENROL),
  mutant(
    'quarantine-on-a-monotonic-clock',
    ['clock.now()', 'clock.now() - 1e9'],
    'redlock/redlock: a master that comes back empty',
  ),
  mutant(
    'durable-means-every-write-waits',
    ["(await setting(redis, 'no-appendfsync-on-rewrite')) === 'no'", 'redis !== undefined'],
    'redlock/wire/enrolment',
  ),
  mutant('nested-calls-have-the-same-slots', 'never', 'lock/reentrancy'),
  mutant(
    'old-holder-stops-before-it-hands-over',
    'removed',
    'redlock/coordination: of a new lease asks no master',
  ),
  mutant(
    'handed-over-lease-is-no-longer',
    ['= this', '= { trust: trustFrom(start, leaseMs, 0.01) }'],
    'redlock/coordination: of a new lease asks no master',
  ),
  mutant('as-many-hand-overs-as-tokens', 'removed', 'redlock/coordination: has a token for each'),
]

const LINE = 'line/line'
const BATCH = 'line/batches'
const LIMITS = 'line/limits'
const SHARES = 'line/shares'

const line: readonly Mutant[] = [
  mutant('clock-that-was-set-back-keeps-no-turn', 'always', 'line/clocks: the same while'),
  mutant('clock-that-was-set-back-stops-no-check', 'never', 'line/clocks: the same while a worker'),
  mutant(
    'place-of-one-instance',
    ["(string.match(timestamp or '', '^%s*%+?(%-?%d+)') or 'NaN')", '0'],
    'worker/instances: has no place of an earlier one',
  ),
  mutant(
    'place-of-one-instance',
    ["(string.match(timestamp or '', '^%s*%+?(%-?%d+)') or 'NaN')", 'timestamp'],
    'worker/instances: runs in its line',
  ),
  mutant(
    'dead-places-are-dropped',
    ['not isThis or', ''],
    `${LINE}: when its id belongs to another job now`,
  ),
  mutant(
    'dead-places-are-dropped',
    [' or (job.finishedOn and job.holds ~= job.finishedOn)', ''],
    `${LINE}: when a plain worker has finished its job`,
  ),
  mutant(
    'dead-places-are-dropped',
    ['job.holds ~= job.finishedOn', 'not job.holds'],
    `${LINE}: no longer when a plain worker`,
  ),
  mutant(
    'only-the-failure-that-holds-is-skipped',
    [' and job[3] == job[4]', ''],
    `${LINE}: no job that runs is skipped`,
  ),
  mutant('deleted-job-leaves', 'never', `${LINE}: have no place when they are`),
  mutant('job-without-a-share-is-not-ready', 'removed', `${LINE}: wait for neither`),
  mutant(
    'scheduled-job-is-not-dropped',
    ['(owner[1] or owner[2])', 'owner[1]'],
    'line/full-lines: of a scheduler',
  ),
  mutant(
    'held-job-leaves-its-lines',
    [' and not job.held', ''],
    `${LINE}: leaves its line as the others do`,
  ),
  mutant('fresh-needs-a-known-place', 'never', 'worker/coordination: moved to the front'),
  mutant(
    'held-job-stands-before-those-that-sleep',
    ['tonumber(ASLEEP_DELAY)', 'math.huge'],
    'line/limits: of a pause stop the line',
  ),
  mutant('held-job-is-not-replaced', 'never', `${LINE}: is not replaced by a job`),
  mutant('steps-end-with-their-job', 'removed', 'worker/instances: end in the trip'),
  mutant('trimmed-job-ends-its-steps', 'removed', 'worker/instances: end when the queue'),
  mutant('cancelled-job-waits-for-nothing', 'removed', `${LINE}: wait for neither`),
  mutant('no-delay-reaches-those-that-sleep', ['- 2', '* 2'], 'line/limits: the longest delay'),
  mutant(
    'obliterated-parent-waits-for-no-child',
    ["'waiting-children', 0, -1", "'waiting-children', 1, 0"],
    `${LINE}: obliterate leaves no parent`,
  ),
  mutant('ready-job-is-not-dropped', 'removed', 'line/full-lines: with shares'),
  mutant(
    'room-is-made-in-the-order-of-adds',
    ['this.#lastAdd.then(add)', 'add()'],
    'line/full-lines: keeps the order of one addBulk',
  ),
  mutant(
    'add-that-dropped-is-not-refused',
    ['id === dropped', "dropped !== ''"],
    'line/full-lines: is made as short for the next job',
  ),
  mutant(
    'started-job-is-not-dropped',
    [' and job.held ~= RESTS', ''],
    'line/full-lines: was started',
  ),
  mutant('full-line-takes-no-job', 'never', 'line/full-lines: refuses a job'),
  mutant('lost-mark-is-left-again', 'never', `${LINE}: mark that is lost`),
  mutant(
    'lost-mark-is-left-again',
    ["redis.call('ZCOUNT', DELAYED, '-inf', '(' .. dueBefore) > 0", 'false'],
    `${LINE}: for a delayed job that is due`,
  ),
  mutant(
    'ready-job-is-looked-for',
    ["redis.call('EXISTS', SPACE .. 'ready') == 1", 'false'],
    `${LINE}: for a job with a share`,
  ),
  mutant('no-mark-where-nothing-waits', 'removed', `${LINE}: a fetch leaves a mark`),
  mutant(
    'no-mark-where-nothing-waits',
    ['not isAnyReady()', 'true'],
    `${LINE}: a fetch leaves a mark`,
  ),
  mutant('as-many-heads-as-slots', ['<', '<='], `${LINE}: and wakes one job`),
  mutant('turn-only-at-the-head', 'removed', LINE),
  mutant('woken-at-the-head-of-all-lines', 'removed', LINE),
  mutant(
    'fetched-job-is-at-the-head',
    ["and 'yes' or 'no'", "and 'yes' or 'yes'"],
    `${LINE}: is put back in line`,
  ),
  mutant('parked-only-behind-others', 'always', LINE),
  mutant(
    'first-write-needs-no-memory',
    ['if ', "redis.call('HSET', head.jobKey, 'delay', 0)\n    if "],
    `${LINE}: wakes the next one when the server has no memory`,
  ),
  mutant('deadline-goes-with-the-sleep', 'never', 'worker/locked-queue: nothing of it is kept'),
  mutant('removed-job-sleeps-no-more', 'removed', `${LINE}: needs one command more for each`),
  mutant('removed-job-wakes-the-next', 'removed', `${LINE}: when it is removed`),
  mutant('job-that-leaves-wakes-the-next', 'removed', `${LINE}: when it is cancelled`),
  mutant('parent-leaves-while-it-waits', 'never', `${LINE}: a parent leaves them`),
  mutant('failed-job-holds-its-line', 'removed', `${LINE}: holds the line until the failed job`),
  mutant(
    'job-that-never-ran-holds-its-line',
    [' or job.lines', ''],
    `${LINE}: holds the line of a parent`,
  ),
  mutant('no-job-passes-one-that-holds', 'removed', `${LINE}: holds the line also against`),
  mutant('priority-orders-a-line', 'always', `${LINE}: within a line by priority`),
  mutant(
    'due-job-joins-by-its-priority',
    ['ranked and rankOf(priority or 0, seq)', 'nil'],
    'compatibility/order: delayed jobs that are promoted or due',
  ),
  mutant(
    'batch-ends-at-a-job-that-may-not-start',
    [' or not job.asleep or job.held', ' or job.held'],
    `${BATCH}: before a job that is delayed`,
  ),
  mutant(
    'batch-ends-at-a-job-that-may-not-start',
    ['areSeveral(job.lines) or ', ''],
    `${BATCH}: before one of several resources`,
  ),
  mutant(
    'error-of-one-job-harms-no-other',
    ['pcall(run, i)', 'true, run(i)'],
    `${LINE}: the error of one job harms no other`,
  ),
  mutant(
    'spent-burst-releases-its-lease',
    ['!== true', '!== null'],
    `${LINE}: two queues of one resource take turns`,
  ),
  mutant(
    'holder-does-not-wait-for-itself',
    'always',
    'redlock/coordination: without the place of a holder',
  ),
  mutant(
    'answer-about-waiters-ages',
    ['this.#burstMs', 'Infinity'],
    'worker/visits: keeps its lease',
  ),
  mutant('slots-that-are-set-count', ['limits.areSet = entry.slots, true', '_ = SLOTS'], LIMITS),
  mutant('closed-line-starts-nothing', 'removed', `${LIMITS}: keeps jobs that were awake already`),
  mutant(
    'held-line-loses-no-job',
    ['blocks ?', 'blocks && false ?'],
    `${LINE}: holds the line also`,
  ),
  mutant(
    'rate-of-one-resource',
    [
      'local rate = set or',
      'if set then limit, perMs, burst = set.limit, set.perMs, set.burst end local rate =',
    ],
    `${LIMITS}: of one resource does not hold back`,
  ),
  mutant('start-counts-for-the-rate', 'removed', `${LIMITS}: is used up to its end`),
  mutant('drained-when-no-job-sleeps', 'never', `${LIMITS}: is not drained`),
  mutant(
    'cost-above-the-burst-is-saved',
    ['savings[key] = account', ''],
    `${LIMITS}: costs more than the burst`,
  ),
  mutant('tenant-comes-back-without-credit', ['math.max(used, time or 0)', 'used'], SHARES),
  mutant('held-job-with-a-share-is-woken', 'removed', `${SHARES}: starts when that ends early`),
  mutant('ready-jobs-by-their-priority', 'never', `${SHARES}: that they were given later`),
  mutant(
    'resting-job-wakes-with-its-resources',
    'removed',
    `${LIMITS}: starts again when that is resumed`,
  ),
  mutant('work-counts-by-weight', [' / weight', ''], `${SHARES}: weights`),
  mutant('start-counts-for-its-tenant', 'removed', `${SHARES}: takes them from tenants in turn`),
  mutant(
    'ready-job-sleeps',
    ['score and tonumber(score) >= ASLEEP', 'score'],
    `${SHARES}: waits for its backoff`,
  ),
]

const worker: readonly Mutant[] = [
  mutant(
    'started-job-adds-the-next-of-its-scheduler',
    'removed',
    'compatibility/plain-queue: a scheduler that is faster',
  ),
  mutant(
    'scheduled-job-without-a-line-waits-in-place',
    ['lines === undefined', 'lines === null'],
    'worker/locked-queue: adds no more in a plain worker',
  ),
  mutant(
    'job-fetched-by-hand-adds-the-next-of-its-scheduler',
    'removed',
    'compatibility/by-hand: the next one is added',
  ),
  mutant(
    'job-that-ends-adds-the-next-of-its-scheduler',
    'removed',
    'worker/locked-queue: a scheduler goes on',
  ),
  mutant(
    'worker-is-drained-once-when-no-job-sleeps',
    [' || asleep !== 0', ''],
    'compatibility/events: drained comes once after',
  ),
  mutant(
    'worker-is-drained-once-when-no-job-sleeps',
    ['this.#toldDrained || ', ''],
    'compatibility/events: drained comes once for each time',
  ),
  mutant(
    'lost-lock-is-of-an-earlier-run',
    ['<= askedAt', '>= 0'],
    'worker/visits: is not stopped by the lost lock',
  ),
  mutant(
    'result-is-as-old-as-its-own-computation',
    ["redis.call('HGET', ARGV.store, 'began:' .. ARGV.lease)", "redis.call('GET', SPACE .. 'seq')"],
    'worker/coordination: is as old as its own computation',
  ),
  mutant('refused-end-fails-no-job', 'always', 'worker/queue-trouble: is taken when the server'),
  mutant(
    'all-connections-are-back',
    ['backends.every(isConnected)', 'true'],
    'tools/cli/refusing-queue: on one connection of two',
  ),
  mutant('done-job-ends-without-its-lock', 'never', `${CUTS}: is done once`),
  mutant(
    'only-the-last-run-ends-without-its-lock',
    ['== job.run', "~= ''"],
    `${CUTS}: is not ended by its first run`,
  ),
  mutant(
    'check-after-a-silence-only-marks',
    ['not last or now - last', 'now - (last or now)'],
    `${CUTS}: jobs of a dead worker`,
  ),
  mutant(
    'one-check-in-two-moves',
    ["spared ~= 'spared'", 'true'],
    `${CUTS}: jobs of a dead worker`,
  ),
  mutant(
    'returned-server-is-soon-found',
    ['MAX_RECONNECT_MS', 'Infinity'],
    `${CUTS}: two seconds at most`,
  ),
  mutant(
    'script-joins-no-older-pipeline',
    'removed',
    'line/line: joins no pipeline that was made before',
  ),
  mutant(
    'replica-is-left',
    ["message.startsWith('READONLY') &&", 'false &&'],
    'stories/queue-failover: a name that leads to another',
  ),
  mutant(
    'closed-queue-leaves-its-sentinels',
    ["client?.status === 'end'", 'false'],
    'tools/cli/sentinel',
  ),
  mutant('crashed-job-runs-again-soon', ['leaseMs', '30_000'], 'worker/crash'),
  mutant(
    'moved-job-stays-where-it-is',
    'never',
    'line/batches: leaves a job that has moved itself',
  ),
  mutant(
    'stopped-job-uses-no-attempt',
    ['isGivenBack(stop.reason)', 'false'],
    'worker/coordination: stops them at its limit',
  ),
  mutant(
    'lost-lock-stops-its-job',
    'removed',
    "worker/locked-worker: aborts when BullMQ's lock on the job is lost",
  ),
  mutant('open-step-holds-the-lease', 'removed', 'worker/ending: holds the lease'),
  mutant('open-step-fails-the-job', 'never', 'worker/ending: holds the lease'),
  mutant('forgotten-extension-ends-no-process', 'removed', 'worker/ending: nobody waits for'),
  mutant(
    'lost-job-does-not-stand-in-its-line',
    'never',
    'worker/ending: for as long as its process',
  ),
  mutant(
    'leaving-worker-starts-no-job',
    ['this.isLeaving || ', ''],
    'worker/ending: starts no job',
  ),
  mutant(
    'leaving-worker-starts-no-job',
    ['this.isLeaving || ', ''],
    'worker/coordination: requeues a job that still asks the lock masters',
  ),
  mutant('leaving-worker-takes-no-mark', 'removed', 'worker/ending: waits for no mark'),
  mutant(
    'forced-close-waits-for-no-job',
    ['force ? 0 : ', ''],
    'worker/ending: lets its process end',
  ),
  mutant(
    'sleeps-no-longer-than-an-outage',
    ['Math.min(outcome.retryAfterMs, maxUnreachableMs)', 'outcome.retryAfterMs'],
    'worker/pure: no longer than in an outage',
  ),
  mutant('due-by-the-clock-of-the-server', 'never', 'worker/clocks: is given back'),
  mutant('promoted-by-the-clock-of-the-server', 'removed', 'worker/clocks: a delay ends by'),
  mutant(
    'parent-is-due-by-the-clock-of-the-server',
    ['(math.floor(nowMs()) - endsAt)', '0'],
    'worker/clocks: the delay of a parent',
  ),
  mutant('delay-by-the-clock-of-the-server', 'never', 'worker/clocks: a delay ends by'),
  mutant(
    'waits-by-its-own-clock',
    ['delayUntil + this.#aheadMs', 'delayUntil'],
    'worker/clocks: a delay ends by',
  ),
  mutant(
    'record-survives-as-leases-do',
    'removed',
    'deploy/acl: that loses what scripts wrote is noticed',
  ),
  mutant(
    'closed-master-enrols-no-client',
    'removed',
    'tools/operator/resize: nothing is granted until',
  ),
  mutant(
    'closed-master-is-of-no-fleet',
    ["'fleetSize', '0'", "'fleetSize', ARGV[3]"],
    'tools/operator/resize: nothing is granted until',
  ),
  mutant(
    'token-above-those-before-a-resize',
    'removed',
    'tools/operator/resize: the clock of a later client',
  ),
  mutant(
    'floor-above-every-counter',
    [' + TOKENS_PER_GRANT', ' * 0'],
    'tools/operator/resize: the clock of a later client',
  ),
  mutant(
    'old-leases-are-over-before-masters-open',
    ['quarantineMs(leftMs, DRIFT_FACTOR)', '0'],
    'tools/operator/resize: a lease of the old fleet',
  ),
  mutant(
    'floor-above-expired-counters',
    ['maxLeaseMs / 2 - fenceTtlMs', '-Infinity'],
    'tools/operator/resize: whose counters had expired',
  ),
  mutant(
    'leases-are-as-long-as-the-closed-masters-say',
    ['...outstanding.map((one) => one.longestMs)', '0'],
    'tools/operator/resize: who planned before another',
  ),
  mutant(
    'leases-of-forgotten-openings-are-over',
    ['resumes ? to.maxLeaseMs : 0', '0'],
    'tools/operator/resize: leases of masters that were opened and forgot',
  ),
  mutant(
    'what-was-forgotten-stays-forgotten',
    'never',
    'tools/operator/resize: that forgot leases is known',
  ),
  mutant(
    'masters-of-both-fleets-open-first',
    ['true', 'false'],
    'tools/operator/resize: those that are open are the new fleet',
  ),
  mutant(
    'forgotten-master-is-not-opened-again',
    'removed',
    'tools/operator/resize: lost its memory is not opened again',
  ),
  mutant(
    'all-goals-but-one-are-replaced',
    ['begun.filter((one) => one !== goal)', '[]'],
    'tools/operator/resize: while one replaces another',
  ),
  mutant(
    'refused-client-remembers-it',
    [' && (others.length > 0 || voter.knowsUs !== false)', ''],
    'tools/operator/resize: does not take a master',
  ),
  mutant(
    'start-of-a-client-is-no-outage',
    ["why?.status === 'suspended' ? undefined : ", ''],
    'redlock/fleet/master-log: whose clock is not compared yet',
  ),
  mutant(
    'resized-fleet-has-its-own-terms',
    ['leaseTerms({}, settings)', 'this.#usualTerms'],
    'tools/operator/resize: leases are as long as the fleet allows',
  ),
  mutant(
    'no-lease-is-longer-than-its-fleet-allows',
    ['> maxLeaseMs', '> Infinity'],
    'tools/operator/resize: leases are as long as the fleet allows',
  ),
  mutant(
    'who-founds-is-known-now',
    ["&& result.reply[0] !== 'unenrolled'", ''],
    'tools/operator/resize: a client that has not heard',
  ),
  mutant('follower-founds-no-fleet', 'never', 'tools/operator/resize: a follower founds no fleet'),
  mutant(
    'no-estimate-while-the-line-stands',
    ['stands || ', ''],
    'tools/operator/answers: behind one that waits for its backoff',
  ),
  mutant(
    'no-estimate-while-the-queue-stands',
    ['if (await queueStands()) ', 'if (false) '],
    'tools/operator/answers: no worker',
  ),
  mutant(
    'reply-that-asked-nothing-says-nothing',
    ['asksNone && ', 'false && '],
    'compatibility/by-hand: a job that ends and asks for no other',
  ),
  mutant(
    'retry-without-a-job-says-nothing',
    ['found?.length === 0 ? undefined : ', ''],
    'compatibility/by-hand: a job that is tried again later',
  ),
  mutant(
    'wait-is-counted-from-when-it-could-start',
    ['from or ', ''],
    'worker/clocks: a job waits no longer',
  ),
  mutant('requeued-job-goes-on-waiting', 'never', 'worker/clocks: waits no shorter for a lease'),
  mutant(
    'late-reply-puts-no-clock-ahead',
    [' - reference.uncertaintyMs', ''],
    'redlock/fleet/clock-watch: no late reply explains',
  ),
  mutant('clock-ahead-is-not-ready', ['< quorum', '< 0'], 'worker/clocks: masters refuse'),
  mutant(
    'changed-delay-by-the-clock-of-the-server',
    [', time: 2', ''],
    'line/clocks: a changed delay',
  ),
  mutant('told-limits-are-in-force', 'always', 'worker/clocks: a limit ends, and is told'),
  mutant(
    'limits-end-by-the-clock-of-the-server',
    ['nowMs() + ', ''],
    'worker/clocks: a limit ends, and is told',
  ),
  mutant('scheduler-by-the-clock-of-the-server', 'removed', 'worker/clocks: a scheduler begins'),
  mutant(
    'one-computes-a-result',
    ['results.keyOf(store)', "results.keyOf(store + (visit.job.id ?? ''))"],
    'worker/coordination: compute it once',
  ),
  mutant('given-up-job-keeps-no-result', 'removed', 'worker/coordination: given up keeps no other'),
  mutant(
    'no-script-runs-while-its-slot-moves',
    ["keyIn(base, 'absent')", '`${base}meta`'],
    'worker/queue-cluster: while the slot of a queue moves',
  ),
  mutant('no-job-has-the-name-of-our-keys', [':::', ':'], 'line/names: whose id is the name'),
  mutant('no-queue-has-the-keys-of-its-locks', 'never', 'line/names: is refused'),
  mutant(
    'log-waits-for-no-reader',
    [
      'if (',
      "if ((createRequire(import.meta.url)('node:fs') as typeof import('node:fs')).writeSync(2, line) < 0 || ",
    ],
    'tools/cli/readers: stands still',
  ),
  mutant(
    'errors-of-another-copy-are-known',
    ['isOurs === true', 'false'],
    'worker/another-copy: goes on after',
  ),
  mutant('first-reason-counts', ['??=', '='], 'worker/pure: reports an earlier abort'),
  mutant('cancel-of-one-run', 'always', `${LIMITS}: stops no other job that has the same id`),
  mutant('cancel-of-one-run', 'always', 'worker/instances: ends with the run'),
  mutant('request-goes-with-its-run', 'removed', 'worker/instances: goes with its run'),
  mutant(
    'job-of-another-queue-leaves-no-line-here',
    ['string.sub(key, 1, #BASE) == BASE', 'true'],
    'worker/instances: one of another queue',
  ),
  mutant('leaving-worker-fills-no-batch', 'never', `${BATCH}: takes no more jobs after`),
  mutant('job-without-data-fails', 'never', 'worker/instances: whose data are gone'),
  mutant('checkpoints-of-one-instance', 'never', 'worker/instances: are not those of'),
  mutant('job-without-a-hash-keeps-nothing', 'never', 'worker/instances: keeps no steps'),
  mutant(
    'steps-belong-to-the-run-with-the-lock',
    'always',
    'worker/coordination: an older run cannot',
  ),
  mutant('only-a-larger-token-goes-on', ['>', '<'], 'worker/coordination: an older holder cannot'),
  mutant(
    'tokens-of-one-lease-are-compared',
    ["ARGV.store, 'token:' .. ARGV.lease", "ARGV.store, 'token:r'"],
    'worker/coordination: tokens of two slots',
  ),
  mutant('fresh-needs-a-place', 'never', 'worker/coordination: `fresh`'),
  mutant('next-job-of-a-scheduler-stays', 'never', `${LIMITS}: does not end a scheduler`),
  mutant('cancel-does-not-stop-its-batch', 'always', `${BATCH}: one of its jobs is cancelled`),
  mutant('cancelled-job-is-not-retried', 'removed', `${LIMITS}: stops the one that runs`),
  mutant(
    'stale-holder-claims-nothing',
    'removed',
    'worker/coordination: an older holder cannot overwrite',
  ),
  mutant(
    'stale-holder-stores-nothing',
    'removed',
    'worker/coordination: an older holder cannot overwrite',
  ),
  mutant(
    'who-reads-claims',
    ["'token:' .. ARGV.lease, ARGV.fencingToken, ", ''],
    'worker/coordination: an older holder cannot overwrite',
  ),
  mutant(
    'stale-update-matches-no-row',
    ['} <= ${limit}', '} >= 0'],
    'fenced/fenced: refuses an older',
  ),
  mutant(
    'stale-write-matches-no-row',
    ['} <= excluded.', '} <> excluded.'],
    'fenced/fenced: refuses an older',
  ),
  mutant('stale-commands-do-not-run', 'removed', 'fenced/fenced: refuse an older write'),
  mutant('missing-row-is-not-stale', 'never', 'fenced/fenced: a duplicate in another unique'),
  mutant('fenced-commands-have-their-own-keys', 'never', 'fenced/fenced: need the whole names'),
  mutant('stale-object-is-not-written', 'never', 'fenced/fenced: refuse an older write'),
]

const SECRETS = 'bad-input/secrets'
const POSTGRES = 'services/postgres/postgres-locks'
const ETCD = 'services/etcd/etcd-locks'
const ZOOKEEPER = 'services/zookeeper/zookeeper-locks'

const services: readonly Mutant[] = [
  mutant(
    'silent-server-keeps-no-session',
    ['END_LIMIT_MS', 'Infinity'],
    `${POSTGRES}: closes while the server`,
  ),
  mutant(
    'postgres-answer-that-came-in-time-counts',
    [
      'withinMs(clock, requestTimeoutMs, client.query(query))',
      'client.query({ ...query, query_timeout: requestTimeoutMs } as PgQuery)',
    ],
    `${POSTGRES}: an answer that came while the process`,
  ),
  mutant(
    'silent-server-delays-no-rollback',
    ['inTime(client, ', 'client.query('],
    `${POSTGRES}: without limits of the pool`,
  ),
  mutant(
    'token-above-deleted-rows',
    [" AND resource = ''", ' AND false'],
    `${POSTGRES}: over deleted rows`,
  ),
  mutant(
    'followed-lease-begins-no-transaction',
    ['fencing_token = $3', '$3 > 0'],
    `${POSTGRES}: begins under no lease`,
  ),
  mutant(
    'transaction-locks-all-rows',
    ['(namespace, resource) DO UPDATE SET resource = excluded.resource', 'DO NOTHING'],
    `${POSTGRES}: locks every row`,
  ),
  mutant(
    'refused-write-writes-nothing',
    ['INSERT', 'REPLACE'],
    'fenced/fenced: refuse an older write',
  ),
  mutant(
    'refused-write-writes-nothing',
    ['INSERT', 'INSERT IGNORE'],
    'fenced/fenced: a value does not fit',
  ),
  mutant('bad-line-ends-its-watch', ['} catch {', '} finally {'], `${ETCD}: has an error line`),
  mutant(
    'ended-watch-wakes-no-waiter',
    ['heard, stop', 'heard, () => (stop(), wake())'],
    `${ETCD}: ends at once`,
  ),
  mutant('endpoint-of-another-cluster-has-failed', 'never', `${ETCD}: has failed from the moment`),
  mutant(
    'only-etcd-refuses',
    ['code > 0 && code <= MAX_CODE', "'error' in said"],
    `${ETCD}: ready says why`,
  ),
  mutant(
    'endpoint-of-another-cluster-has-failed',
    ['!== id', '!== (id ?? this.#clusterId)'],
    `${ETCD}: an endpoint that answers with`,
  ),
  mutant('client-of-one-cluster', 'never', `${ETCD}: gets no lease of a client`),
  mutant('namespaces-do-not-nest', ['%/', '%'], `${ETCD}: namespaces that nest`),
  mutant('ready-takes-a-lease', 'removed', `${ETCD}: ready says why`),
  mutant(
    'waiter-keeps-one-place',
    ['waiter?.attempt === wish.token', 'waiter'],
    `${ZOOKEEPER}: a waiter leaves no node of an attempt`,
  ),
  mutant(
    'waiter-keeps-one-place',
    [' && paths.length === 1', ''],
    `${ZOOKEEPER}: holds none of them`,
  ),
  mutant('abandon-writes-before-it-reads', 'removed', `${ZOOKEEPER}: moved to a server that lags`),
  mutant('connection-begins-without-a-rest', 'removed', `${ZOOKEEPER}: a reply that is cut after`),
  mutant('forgotten-request-is-lost', 'never', `${ZOOKEEPER}: an answer to another request`),
  mutant('refused-value-shows-no-secret', ['shownValue(value)', 'value'], SECRETS),
  mutant('usage-error-shows-no-secret', ['shownValue(one)', 'one'], SECRETS),
  mutant(
    'bad-reply-ends-its-connection',
    ['} catch {', '} catch (error) {\n      throw error'],
    `${ZOOKEEPER}: a short reply`,
  ),
]

/**
 * Attacks that had two holders or a smaller token, without the rule that closes each: the
 * simulation must find them in worlds that are drawn at random. Two of them are there in one world
 * of some hundreds, so they have more worlds.
 */
const attacks: readonly Mutant[] = [
  mutant('nested-calls-have-the-same-slots', 'never', { seeds: 500 }),
  mutant(
    'longer-trust-is-of-one-instant',
    [
      'b.until >= a.until ? b : a',
      '{ until: Math.max(a.until, b.until), wallUntil: Math.max(a.wallUntil, b.wallUntil) }',
    ],
    { seeds: 500, clocks: 'jumps' },
  ),
  mutant(
    'durable-means-every-write-waits',
    ["(await setting(redis, 'no-appendfsync-on-rewrite')) === 'no'", 'redis !== undefined'],
    { seeds: 3_000, clocks: 'sane' },
  ),
  mutant('master-out-of-line-grants-nothing', 'never', { seeds: 3_000, clocks: 'stepped' }),
]

/** What holds whatever people combine: the combinations must notice, in episodes that are drawn. */
const combined: readonly Mutant[] = (
  [
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
    ['batch-ends-at-a-job-that-may-not-start', [' or not job.asleep or job.held', ' or job.held']],
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
  ] satisfies [string, Change][]
).map(([rule, change]) => mutant(rule, change, { episodes: 200 }))

const SHARDED = 'sharded/sharded-queue'
const PERMITS = 'sharded/concurrency'
const sharded: readonly Mutant[] = [
  mutant('resources-of-a-job-are-in-one-shard', 'always', `${SHARDED}: resources of a job`),
  mutant('number-of-shards-does-not-change', 'never', `${SHARDED}: another number of shards`),
  mutant('scheduler-is-in-one-shard', 'removed', `${SHARDED}: a scheduler is in`),
  mutant(
    'refused-scheduler-stays-as-it-was',
    ['await mine', 'mine'],
    `${SHARDED}: a scheduler whose move`,
  ),
  mutant('bulk-is-refused-as-a-whole', 'removed', `${SHARDED}: addBulk adds none`),
  mutant('listener-waits-for-the-first-shard', 'removed', `${SHARDED}: another number of shards`),
  mutant('worker-waits-for-the-first-shard', 'removed', 'sharded/start: another number'),
  mutant(
    'scheduler-that-two-calls-move-is-there',
    'always',
    `${SHARDED}: a scheduler that several`,
  ),
  mutant('refused-obliterate-removes-nothing', 'removed', `${SHARDED}: obliterates all or nothing`),
  mutant('flow-is-in-one-shard', 'never', `${SHARDED}: a flow within a shard`),
  mutant('id-names-the-shard-of-its-job', 'never', `${SHARDED}: an id of another shard`),
  mutant('shard-runs-no-job-of-another', 'always', `${SHARDED}: a worker fails a job`),
  mutant('locks-of-shards-are-told-apart', 'always', `${SHARDED}: bad options`),
  mutant(
    'busy-shard-leaves-others-their-share',
    ['held.size + 1 < size', 'false'],
    `${PERMITS}: a shard that gets work`,
  ),
  mutant(
    'busy-shard-leaves-others-their-share',
    ['held.size === 0', 'false'],
    `${PERMITS}: with one permit`,
  ),
  mutant(
    'silent-server-keeps-no-permit',
    ['PATIENCE_MS', 'Infinity'],
    `${SHARDED}: a node that hangs leaves`,
  ),
  mutant(
    'job-that-waits-for-an-answer-keeps-no-permit',
    ["visits?.waiting(job?.id ?? '')", 'undefined'],
    `${SHARDED}: a node that hangs at`,
  ),
  mutant('shard-that-waits-takes-one-permit', 'removed', `${PERMITS}: a shard that waits takes`),
  mutant('next-job-waits-for-no-permit', 'removed', `${PERMITS}: a shard goes on from job`),
  mutant(
    'process-without-a-permit-leaves-the-mark',
    'removed',
    `${PERMITS}: a permit that comes free`,
  ),
]

export const mutants: readonly Mutant[] = [
  ...[...lock, ...line, ...worker, ...sharded],
  ...[...services, ...attacks, ...combined],
]
