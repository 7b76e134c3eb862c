/**
 * Rules of the protocol and of the lines, each with the smallest change to the source that takes it
 * away, and with what must notice. The exhaustive model is an argument for the rules; it does not
 * run the code, so it kills none.
 *
 * Where a rule lives in a script, the simulated master has it too: both are changed.
 */
import type { Clocks } from '../sim/scenario.ts'

export interface Patch {
  /** From the root of the project. */
  readonly file: string
  /** Must occur exactly once. */
  readonly find: string
  readonly replace: string
}

export interface Mutant {
  readonly rule: string
  readonly patches: readonly Patch[]
  readonly killedBy: Killer
}

/** What must notice: a file of tests or one test of it, or the simulation within so many seeds. */
export type Killer =
  | { readonly test: string; readonly name?: string }
  | { readonly seeds: number; readonly clocks?: Clocks }

/** In the long form, the short form or the enrolment: `file` below `src/redlock`. */
const lua = (file: string, find: string, replace: string): Patch => ({
  file: `src/redlock/${file}.ts`,
  find,
  replace,
})
const inModel = (find: string, replace: string): Patch => ({
  file: 'test/sim/simulated-scripts.ts',
  find,
  replace,
})
const source = (file: string, find: string, replace: string): Patch => ({
  file: `src/${file}.ts`,
  find,
  replace,
})

/** In the Lua of the lines. */
const worker = (find: string, replace: string, file = 'line-scripts'): Patch => ({
  file: `src/line/${file}.ts`,
  find,
  replace,
})
const LINE = 'test/line/line.test.ts'
const BATCH = 'test/line/batches.test.ts'
const LIMITS = 'test/line/limits.test.ts'
const SHARES = 'test/line/shares.test.ts'
/** In what a worker does with a job. */
const run = (find: string, replace: string): Patch => ({
  file: 'src/worker/run/job-runs.ts',
  find,
  replace,
})

const rules: readonly Mutant[] = [
  {
    rule: 'quorum is a majority',
    patches: [
      source(
        'redlock/quorum/quorum',
        'return Math.floor(masters / 2) + 1',
        'return Math.floor(masters / 2)',
      ),
    ],
    killedBy: { test: 'test/redlock/pure.test.ts', name: 'two quorums always share a master' },
  },
  {
    rule: 'fresh token for every attempt',
    patches: [
      source('redlock/attempt', '`${randomUUID()}@${owner}`', '`${resources.join()}@${owner}`'),
      source('redlock/attempt', "import { randomUUID } from 'node:crypto'\n", ''),
    ],
    killedBy: { seeds: 300 },
  },
  {
    rule: 'time counts from before the first command',
    patches: [
      source(
        'redlock/attempt',
        'startedAt: start.now, tookMs, trust, ',
        'startedAt: start.now, tookMs, trust: trustFrom(end, leaseMs, driftFactor), ',
      ),
    ],
    killedBy: { seeds: 300 },
  },
  {
    rule: 'drift margin',
    patches: [
      source(
        'lock/trust',
        'return Math.ceil(leaseMs * driftFactor) + 2\n}\n\nexport function trustFrom',
        'return 0 * leaseMs * driftFactor\n}\n\nexport function trustFrom',
      ),
    ],
    killedBy: { test: 'test/lock/pure.test.ts', name: 'is counted from the start of the attempt' },
  },
  {
    rule: 'the wall clock ends a lease too',
    patches: [
      source(
        'lock/trust',
        'Math.min(trust.until - at.now, trust.wallUntil - at.wallNow)',
        'trust.until - at.now',
      ),
    ],
    killedBy: { test: 'test/lock/pure.test.ts', name: 'is over when either clock says so' },
  },
  {
    rule: 'trust is checked after the votes',
    patches: [source('redlock/attempt', 'if (leftMs <= 0) {', 'if (leftMs < 0) {')],
    killedBy: { test: 'test/hazards/expired-grants.test.ts' },
  },
  {
    rule: 'a master that may have forgotten is quarantined',
    patches: [
      lua(
        'fleet/enrol-scripts',
        'quarantine, votesInMs = ARGV[8], ARGV[3] end',
        "quarantine, votesInMs = ARGV[8], '0' end",
      ),
      inModel('[at(args, 8), quarantineMs]', "[at(args, 8), '0']"),
    ],
    killedBy: { test: 'test/redlock/wire/enrolment-scripts.test.ts' },
  },
  {
    rule: 'the run id must match, a kept record proves nothing',
    patches: [
      lua(
        'fleet/enrol-scripts',
        'if known[1] ~= ARGV[1] then\n  local survives',
        'if not known[1] then\n  local survives',
      ),
      inModel("if (known.get('runId') !== runId) {", "if (!known.has('runId')) {"),
    ],
    killedBy: { test: 'test/redlock/wire/enrolment-scripts.test.ts' },
  },
  {
    rule: 'whoever counts another number of masters is not enrolled',
    patches: [
      lua(
        'fleet/enrol-scripts',
        "if known[3] and known[3] ~= ARGV[5] then return {'mismatch'",
        "if false then return {'mismatch'",
      ),
      inModel(
        'Object.entries({ maxLeaseMs, fleetSize, fenceTtlMs })',
        'Object.entries({ maxLeaseMs, fenceTtlMs })',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/enrolment-scripts.test.ts' },
  },
  {
    rule: 'whom other masters refuse founds no fleet',
    patches: [
      lua(
        'fleet/enrol-scripts',
        "if not known[1] and ARGV[6] == '0'",
        "if not known[1] and ARGV[6] == '-'",
      ),
      inModel(
        "if (!known.has('runId') && at(args, 6) === '0')",
        "if (!known.has('runId') && at(args, 6) === '-')",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/enrolment-scripts.test.ts' },
  },
  {
    rule: 'whoever counts another number of masters has no vote',
    patches: [
      lua('verbs/library', ' and record[4] == fleetSize', ''),
      inModel(" &&\n      record.get('fleetSize') === constants['fleetSize']", ''),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'proposals far ahead of the server are refused',
    patches: [
      lua('verbs/acquire', 'if aheadMs > tonumber(maxClockSkewMs) then', 'if false then'),
      inModel('if (aheadMs > maxClockSkewMs)', 'if (aheadMs > maxClockSkewMs + Infinity)'),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'proposals follow the clock',
    patches: [
      source(
        'redlock/verbs/acquire',
        'Math.floor(this.#clock.wallNow() * 1000)',
        'Math.floor(this.#clock.wallNow() * 0)',
      ),
    ],
    killedBy: { test: 'test/redlock/pure.test.ts' },
  },
  {
    rule: 'every grant raises the counter',
    patches: [
      lua(
        'verbs/acquire',
        "fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end",
        "fence = string.format('%.0f', counter) end",
      ),
      inModel(
        'Math.max(Math.max(counter, earliestUs) + TOKENS_PER_GRANT, proposal)',
        'Math.max(Math.max(counter, earliestUs), proposal)',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'a lease that is held is not granted',
    patches: [
      lua('verbs/acquire', 'if holder and holder ~= token then', 'if holder and nowMs < 0 then'),
      inModel(
        'if (holder !== undefined && holder !== token) {',
        'if (holder !== undefined && nowMs < 0) {',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'confirm counts only the exact token',
    patches: [
      source(
        'redlock/verbs/confirm',
        "vote.kind === 'counter' && vote.counter === this.#fencingToken",
        "vote.kind === 'counter'",
      ),
    ],
    killedBy: { test: 'test/sim/exact-counters.test.ts', name: 'a counter that has gone on' },
  },
  {
    rule: 'confirm checks that the key is mine',
    patches: [
      lua(
        'verbs/confirm',
        "if redis.call('GET', leaseKey(resource)) ~= token then return {'lost'} end\nend\nlocal highest",
        "if token == '' then return {'lost'} end\nend\nlocal highest",
      ),
      inModel(
        "if (memory.get(keys.lease(resource)) !== token) return ['lost']",
        "if (keys.lease(resource) === token) return ['lost']",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'grants that differ are confirmed',
    patches: [
      source('redlock/attempt', 'if (acquire.atCounter < fleet.quorum) {', 'if (counter < 0) {'),
    ],
    killedBy: {
      test: 'test/redlock/redlock.test.ts',
      name: 'counters that differ are levelled on a quorum before the lease counts',
    },
  },
  {
    rule: 'extend checks that nobody was granted since',
    patches: [
      lua(
        'verbs/extend',
        "if counter > tonumber(fence) then return {'lost', holder or ''} end\n  if holder and holder ~= token then return {'lost', holder} end\n  if not holder then missing",
        "if holder and holder ~= token then return {'lost', holder} end\n  if not holder then missing",
      ),
      inModel(
        "if (counterOf(scene, resource) > Number(fence)) return ['lost', holder ?? '']\n    if (holder !== undefined && holder !== token) return ['lost', holder]\n    if (holder === undefined) missing = true",
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n    if (holder === undefined) missing = true",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'extend checks that the key is mine',
    patches: [
      lua(
        'verbs/extend',
        "if holder and holder ~= token then return {'lost', holder} end\n  if not holder then missing",
        'if not holder then missing',
      ),
      inModel(
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n    if (holder === undefined) missing = true",
        'if (holder === undefined) missing = true',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'an extension never makes a lease shorter',
    patches: [
      lua(
        'verbs/extend',
        "for _, resource in ipairs(resources) do\n  redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')",
        "for _, resource in ipairs(resources) do\n  redis.call('PEXPIRE', leaseKey(resource), leaseMs)",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'extend never creates a key',
    patches: [
      lua(
        'verbs/extend',
        "if missing then return {'missing'} end\nfor _, resource in ipairs(resources) do\n  redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')",
        "for _, resource in ipairs(resources) do\n  redis.call('SET', leaseKey(resource), token, 'PX', leaseMs)",
      ),
      inModel(
        "if (missing) return ['missing']\n  for (const resource of resources) {\n    memory.lengthen(keys.lease(resource), leaseMs)",
        "if (missing && leaseMs < 0) return ['missing']\n  for (const resource of resources) {\n    memory.set(keys.lease(resource), token, leaseMs)",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'an extension counts only inside the old trust',
    patches: [
      source(
        'lock/held-lease',
        'this.assertHeld() // An answer counts only inside the old trust.\n',
        '',
      ),
    ],
    killedBy: { test: 'test/sim/late-extension.test.ts' },
  },
  {
    rule: 'healing waits for a quorum',
    patches: [
      source(
        'redlock/quorum-lease',
        "if ((await poll.verdict) === 'against') {\n      await poll.complete",
        "const verdict = await poll.verdict\n    this.#healMissing(poll.votes, new Set())\n    if (verdict === 'against') {\n      await poll.complete",
      ),
    ],
    killedBy: { test: 'test/sim/healing.test.ts' },
  },
  {
    rule: 'heal never replaces another holder',
    patches: [
      lua(
        'verbs/heal',
        "if holder and holder ~= token then return {'lost', holder} end\nend\nfor _, resource in ipairs(resources) do\n  if redis.call('SET', leaseKey(resource), token, 'PX', leaseMs, 'NX') == false then",
        "end\nfor _, resource in ipairs(resources) do\n  if redis.call('SET', leaseKey(resource), token, 'PX', leaseMs) == false then",
      ),
      inModel(
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n  }\n  for (const resource of resources) {\n    const lease = keys.lease(resource)\n    if (memory.exists(lease)) memory.lengthen(lease, leaseMs)\n    else memory.set",
        '}\n  for (const resource of resources) {\n    const lease = keys.lease(resource)\n    memory.set',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'heal checks that nobody was granted since',
    patches: [
      lua(
        'verbs/heal',
        "if counter > tonumber(fence) then return {'lost', holder or ''} end\n  if holder and holder ~= token then return {'lost', holder} end\nend",
        "if holder and holder ~= token then return {'lost', holder} end\nend",
      ),
      inModel(
        "if (counterOf(scene, resource) > Number(fence)) return ['lost', holder ?? '']\n    if (holder !== undefined && holder !== token) return ['lost', holder]\n  }",
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n  }",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'the old holder stops before it hands over',
    patches: [
      source(
        'lock/held-lease',
        "    this.#end('handed-over')\n    this.#released = Promise.resolve()\n",
        '',
      ),
    ],
    killedBy: {
      test: 'test/redlock/coordination.test.ts',
      name: 'of a new lease asks no master',
    },
  },
  {
    rule: 'a grant leaves room for the tokens of those it is passed on to',
    patches: [
      lua(
        'verbs/acquire',
        "if counter + ${TOKENS_PER_GRANT} > tonumber(proposal) then fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end",
        "if counter >= tonumber(proposal) then fence = string.format('%.0f', counter + 1) end",
      ),
      inModel(
        'Math.max(Math.max(counter, earliestUs) + TOKENS_PER_GRANT, proposal)',
        'Math.max(Math.max(counter, earliestUs) + TOKENS_PER_GRANT / 64, proposal)',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'a lease is passed on only as often as it has tokens',
    patches: [
      source(
        'redlock/quorum-lease',
        'if (this.#passes + 1 === TOKENS_PER_GRANT) return undefined',
        'if (this.#passes === -TOKENS_PER_GRANT) return undefined',
      ),
    ],
    killedBy: { test: 'test/redlock/coordination.test.ts', name: 'has a token for each' },
  },
  {
    rule: 'a lease that is passed on is no longer than it was',
    patches: [
      source(
        'redlock/quorum-lease',
        'before?.trust ?? grant.trust',
        'trustFrom({ now: fleet.settings.clock.now(), wallNow: fleet.settings.clock.wallNow() }, terms.leaseMs, fleet.settings.driftFactor)',
      ),
    ],
    killedBy: {
      test: 'test/redlock/coordination.test.ts',
      name: 'of a new lease asks no master',
    },
  },
  {
    rule: 'a lease that is passed on knows which keys are being given back',
    patches: [
      source(
        'redlock/quorum-lease',
        'before === undefined ? undefined : before.#healing',
        'before === undefined ? undefined : this.#healing',
      ),
    ],
    killedBy: { test: 'test/sim/healing.test.ts' },
  },
  {
    rule: 'a failed attempt is released on every master',
    patches: [
      source(
        'redlock/verbs/release',
        'ask(_master: Master, index: number): Call {\n    return this.#terms.isUnsettled(index) ? this.#forGood : this.#call',
        'ask(_master: Master, index: number): Call | CallResult {\n    return this.#terms.isUnsettled(index) ? { ok: true, serverMs: 0, reply: 0 } : this.#call',
      ),
    ],
    killedBy: { test: 'test/sim/abandoned-attempts.test.ts' },
  },
  {
    rule: 'a release on another connection than its question leaves a tombstone',
    patches: [
      source(
        'redlock/attempt',
        'return unknown && masters[index]?.state !== states[index]',
        'return unknown && masters.length < 0 && states.length < 0',
      ),
    ],
    killedBy: { test: 'test/sim/abandoned-attempts.test.ts' },
  },
  {
    rule: 'whoever leaves a tombstone says that there is one',
    patches: [
      lua('verbs/heal', '  flag(2 * maxLeaseMs)\n', ''),
      lua('verbs/release', '  flag(tombstoneMs)\n', ''),
      inModel("'1', forMs)\n  flag(scene, forMs)\n", "'1', forMs)\n"),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'an abandoned token leaves a tombstone',
    patches: [
      lua(
        'verbs/acquire',
        "  if reserved and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end\n",
        '',
      ),
      inModel("if (isAbandoned(scene, token)) return ['abandoned']\n  let counter", 'let counter'),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'the short form grants no lease that is held',
    patches: [lua('verbs/acquire', "token, 'NX', 'PX', leaseMs, 'GET')", "token, 'PX', leaseMs)")],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'the short form grants nothing in quarantine',
    patches: [lua('verbs/acquire', 'if not grants or flagged', 'if not enrolled or flagged')],
    killedBy: {
      test: 'test/redlock/redlock.test.ts',
      name: 'a new fleet waits before its first grant',
    },
  },
  {
    rule: 'the short form refuses proposals far ahead',
    patches: [lua('verbs/acquire', ' or proposed > latestUs', '')],
    killedBy: { test: 'test/sim/scripts-equal-model.test.ts' },
  },
  {
    rule: 'the short form looks for tombstones and reservations',
    patches: [lua('verbs/acquire', 'if not grants or flagged or', 'if not grants or')],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'the short form raises the counter',
    patches: [
      lua(
        'verbs/acquire',
        'if least <= proposed then return true end',
        'if least then return true end',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts' },
  },
  {
    rule: 'the short form extends only my key',
    patches: [lua('verbs/extend', " or call('GET', leaseKey) ~= token", '')],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'the short form extends nothing after a later grant',
    patches: [
      lua(
        'verbs/extend',
        "\n      or tonumber(call('GET', fenceKey) or '0') > tonumber(fence)",
        '',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'the short form never makes a lease shorter',
    patches: [
      lua(
        'verbs/extend',
        "call('PEXPIRE', leaseKey, leaseMs, 'GT')",
        "call('PEXPIRE', leaseKey, leaseMs)",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'the short form releases only my key',
    patches: [lua('verbs/release', "if call('GET', leaseKey) ~= token then return 0 end", '')],
    killedBy: { test: 'test/sim/scripts-equal-model.test.ts' },
  },
  {
    rule: 'the short form leaves tombstones to the long one',
    patches: [lua('verbs/release', " or tombstoneMs ~= '0'", '')],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'only exact tokens on a full quorum complete a grant',
    patches: [
      source('redlock/attempt', 'acquire.atCounter < fleet.quorum', 'acquire.atCounter < 1'),
    ],
    killedBy: { test: 'test/sim/exact-counters.test.ts', name: 'a quorum holds the token' },
  },
  {
    rule: 'memory is durable only where every write waits for the disk, also during a rewrite',
    patches: [
      source(
        'redlock/wire/server-facts',
        "(await configOf(redis, 'no-appendfsync-on-rewrite')) === 'no'",
        "(await configOf(redis, 'no-appendfsync-on-rewrite')) !== ''",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/enrolment.test.ts' },
  },
  {
    rule: 'only the quarantine that was counted is shortened',
    patches: [lua('fleet/enrol-scripts', 'if known[1] ~= ARGV[1] then return 0 end', '')],
    killedBy: { test: 'test/redlock/wire/enrolment-scripts.test.ts' },
  },
  {
    rule: 'a quarantine is counted on a monotonic clock',
    patches: [
      source(
        'redlock/fleet/quarantines',
        'Math.max(0, Math.ceil(until - this.#clock.now()))',
        'Math.max(0, Math.ceil(until - this.#clock.now() - 1e9))',
      ),
    ],
    killedBy: { test: 'test/redlock/redlock.test.ts', name: 'a master that comes back empty' },
  },
  {
    rule: 'a tombstone outlives a healed key',
    patches: [
      lua(
        'verbs/extend',
        "redis.call('PEXPIRE', tombstoneKey(token), 2 * maxLeaseMs) == 1",
        "redis.call('EXISTS', tombstoneKey(token)) == 1",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts', name: 'within a quarantine' },
  },
  {
    rule: 'a master out of line grants nothing that counts',
    patches: [
      source(
        'redlock/fleet/clock-watch',
        'if (this.#outOfLine.has(master)) return this.#options.suspensionMs',
        'if (this.#comparedAt === Infinity) return this.#options.suspensionMs',
      ),
    ],
    killedBy: { test: 'test/hazards/wrong-clocks.test.ts', name: 'a client that starts after' },
  },
  {
    rule: 'a master out of line extends nothing that counts',
    patches: [
      source(
        'redlock/verbs/extend',
        "vote.kind === 'extended' && this.#fleet.clocks.isOutOfLine(master)",
        "vote.kind !== 'extended' && this.#fleet.clocks.isOutOfLine(master)",
      ),
    ],
    killedBy: { test: 'test/hazards/wrong-clocks.test.ts', name: 'an extension does not rest' },
  },
  {
    rule: 'nested calls join only on as many slots',
    patches: [source('lock/reentrancy', 'shared.slots !== slots', 'shared.slots < 0')],
    killedBy: { test: 'test/lock/reentrancy.test.ts' },
  },
  {
    rule: 'the longer trust is of one instant',
    patches: [
      source(
        'lock/trust',
        'return b.until >= a.until ? b : a',
        'return { until: Math.max(a.until, b.until), wallUntil: Math.max(a.wallUntil, b.wallUntil) }',
      ),
    ],
    killedBy: { test: 'test/lock/pure.test.ts', name: 'an extension after a clock was set' },
  },
  {
    rule: 'a key that was healed in a quarantine does not extend',
    patches: [
      lua('verbs/extend', "  return {'healed'}\n", "  return {'extended'}\n"),
      inModel(
        "  abandon(scene, token, tombstoneMs(scene))\n  return ['healed']",
        "  abandon(scene, token, tombstoneMs(scene))\n  return ['extended']",
      ),
    ],
    killedBy: { test: 'test/redlock/wire/renewal-scripts.test.ts' },
  },
  {
    rule: 'a key that outlasts the longest lease is shortened',
    patches: [
      lua(
        'verbs/acquire',
        "  if redis.call('PTTL', holderKey) > tonumber(maxLeaseMs) then redis.call('PEXPIRE', holderKey, maxLeaseMs) end\n",
        '',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts', name: 'a key that outlasts' },
  },
  {
    rule: 'a place of a waiter ends with the longest lease',
    patches: [lua('verbs/acquire', 'math.min(waitMs, tonumber(maxLeaseMs))', 'waitMs')],
    killedBy: { test: 'test/redlock/wire/grant-scripts.test.ts', name: 'leaves a waiter' },
  },
  {
    rule: 'an owner that no server can write is refused',
    patches: [source('options', 'if (/\\p{Surrogate}/u.test(value)) {', "if (value === '') {")],
    killedBy: { test: 'test/bad-input/construction.test.ts' },
  },
  {
    rule: 'no token is smaller than one that was forgotten',
    patches: [
      lua('verbs/acquire', 'counter = math.max(counter, earliestUs)\n', ''),
      lua('verbs/acquire', ' or proposed < earliestUs', ''),
    ],
    killedBy: { test: 'test/hazards/wrong-clocks.test.ts', name: 'a token is larger' },
  },
  {
    rule: 'counters of a fleet live equally long',
    patches: [
      lua(
        'fleet/enrol-scripts',
        "if known[4] and known[4] ~= ARGV[9] then return {'mismatch', 'fenceTtlMs', known[4]} end",
        '',
      ),
    ],
    killedBy: { test: 'test/redlock/wire/enrolment-scripts.test.ts' },
  },
  {
    rule: 'a lease is handed over only by its own Redlock',
    patches: [source('redlock/redlock', ' || !lease.belongsTo(this.#fleet)', '')],
    killedBy: { test: 'test/redlock/foreign-lease.test.ts' },
  },
  {
    rule: 'no namespace has keys in another one',
    patches: [source('redlock/settings', '!KEY_KINDS.test(namespace)', 'namespace')],
    killedBy: { test: 'test/bad-input/construction.test.ts', name: 'a namespace whose keys' },
  },
  {
    rule: 'a name that no server can write is refused',
    patches: [source('lock/resources', 'if (HALF_CHARACTER.test(name))', "if (name === '')")],
    killedBy: { test: 'test/bad-input/calls.test.ts' },
  },
  {
    rule: 'the reply that shows a clock jump does not grant',
    patches: [
      source(
        'redlock/verbs/acquire',
        "if (waitMs > 0) return { kind: 'suspended', waitMs }",
        "if (waitMs < 0) return { kind: 'suspended', waitMs }",
      ),
    ],
    killedBy: { test: 'test/redlock/suspended-vote.test.ts' },
  },
  {
    rule: "the lease's timer looks at both clocks",
    patches: [
      source(
        'lock/held-lease',
        'Math.min(leftMs, this.#terms.leaseMs / CHECKS_PER_LEASE)',
        'Math.min(leftMs, this.#terms.leaseMs * CHECKS_PER_LEASE)',
      ),
    ],
    killedBy: { test: 'test/sim/lease-timer.test.ts' },
  },
  {
    rule: 'two addresses of one server are one vote',
    patches: [
      source(
        'redlock/fleet/fleet',
        'if (duplicate !== undefined && duplicate !== master) {',
        'if (duplicate !== undefined && duplicate === master) {',
      ),
    ],
    killedBy: { test: 'test/bad-input/unfit-masters.test.ts' },
  },
  {
    rule: 'a line drops the place of a job that is gone or of another instance',
    patches: [worker('job[1] ~= timestamp or ', 'not job[1] or ', 'line-library')],
    killedBy: { test: LINE, name: 'when its id belongs to another job now' },
  },
  {
    rule: 'a job of which anything is unusual goes by all rules of a line',
    patches: [
      worker(
        'if job[5] or job[6] or job[7] or job[8] or job[9] then return nil end',
        '',
        'usual-job',
      ),
    ],
    killedBy: { test: LIMITS, name: 'is used up to its end' },
  },
  {
    rule: 'a fetched job has its turn only as the first of its line',
    patches: [worker('if not first or first[1] ~=', 'if not first or nil ==', 'usual-job')],
    killedBy: { test: LINE, name: 'is put back in line' },
  },
  {
    rule: 'a job that may stand before the next one goes first',
    patches: [
      worker(
        "    if command == 'LPUSH' or command == 'RPUSH' or command == 'ZADD' then return unusual().call(...) end\n",
        '',
        'usual-job',
      ),
    ],
    killedBy: { test: LINE },
  },
  {
    rule: 'a job that others came to stand before goes by all rules of a line',
    patches: [worker('    if places[1] ~= place then return nil end\n', '', 'usual-job')],
    killedBy: { test: LINE, name: 'that are ahead of the one that runs' },
  },
  {
    rule: 'a line drops the place of a job that is finished',
    patches: [
      worker(' or (job[2] and not job[6]) then return nil', ' then return nil', 'line-library'),
    ],
    killedBy: { test: LINE, name: 'when a plain worker has finished its job' },
  },
  {
    rule: 'a place belongs to one instance of a job',
    patches: [worker("#base .. ' ' .. timestamp end", "#base .. ' ' .. 0 end", 'line-library')],
    killedBy: { test: LINE },
  },
  {
    rule: 'who is removed leaves its line and wakes the next one',
    patches: [
      worker(
        'if result == 1 and job[1] then leave(base, id, job[1], job[2]) end',
        'if not result and job[1] then leave(base, id, job[1], job[2]) end',
      ),
    ],
    killedBy: { test: LINE, name: 'when it is removed' },
  },
  {
    rule: 'a parent leaves its line while it waits for its children',
    patches: [worker('if job and job[1] then\n  local since', 'if not job then\n  local since')],
    killedBy: { test: LINE, name: 'a parent leaves them' },
  },
  {
    rule: 'a held line waits for its failed job',
    patches: [
      worker(
        "redis.call('HSET', jobKey, 'redlock:holds', 1)",
        "redis.call('HDEL', jobKey, 'redlock:holds')",
      ),
    ],
    killedBy: { test: LINE, name: 'holds the line until the failed job' },
  },
  {
    rule: 'a line has as many heads as slots',
    patches: [
      worker(
        'local head = #heads < most and jobAt(place)',
        'local head = #heads <= most and jobAt(place)',
        'line-library',
      ),
    ],
    killedBy: { test: LINE, name: 'with slots' },
  },
  {
    rule: 'a job of several lines is woken only where it is at the head of all',
    patches: [worker('if several and not isTurn', 'if false and not isTurn', 'line-library')],
    killedBy: { test: LINE },
  },
  {
    rule: 'a line orders its jobs by priority, where the queue says so',
    patches: [
      worker("if ARGV[4] ~= 'priority' then return seq end", 'if ARGV[4] then return seq end'),
    ],
    killedBy: { test: LINE, name: 'within a line by priority' },
  },
  {
    rule: 'a batch ends before a job that does not sleep',
    patches: [worker(' or not job.asleep or job.held', ' or job.held')],
    killedBy: { test: BATCH, name: 'before a job that is delayed' },
  },
  {
    rule: 'a batch ends before a job of several resources',
    patches: [worker('if isOther or #found', 'if #found')],
    killedBy: { test: BATCH, name: 'before one of several resources' },
  },
  {
    rule: 'the next batch is taken only by the worker that has its first job',
    patches: [worker(' or not isLocked(head)', '')],
    killedBy: { test: BATCH, name: 'that another worker may get' },
  },
  {
    rule: 'jobs that were taken for a batch that did not begin go back to their places',
    patches: [run('if (ahead !== undefined) {', 'if (ahead !== ahead) {')],
    killedBy: { test: BATCH, name: 'returns its jobs to their places' },
  },
  {
    rule: 'a batch that waits takes jobs behind those that it has',
    patches: [worker(' not job.asleep and isLocked(job)', ' false')],
    killedBy: { test: BATCH, name: 'that is not full waits' },
  },
  {
    rule: 'a batch takes no job of a resource that is paused',
    patches: [worker('if slots == 0 then return found end', 'limits = nil')],
    killedBy: { test: BATCH, name: 'while its resource was paused' },
  },
  {
    rule: 'a batch starts no more jobs than the rate admits',
    patches: [worker('    rateOpensAt(job.lines, job.rate, true) -- It counts.\n', '')],
    killedBy: { test: BATCH, name: 'no more starts than its rate admits' },
  },
  {
    rule: 'the locks of all jobs of a batch are removed',
    patches: [worker("if #gone > 0 then redis.call('DEL', unpack(gone)) end\n", '')],
    killedBy: { test: BATCH, name: 'has the next jobs of its line' },
  },
  {
    rule: 'a job of a batch goes among the completed or the failed jobs by its own end',
    patches: [
      worker('keys[11], keys[12], keys[13] = base .. target,', '_, keys[12], keys[13] = 0,'),
    ],
    killedBy: { test: BATCH, name: 'holds its line' },
  },
  {
    rule: 'a job of a batch that failed for good holds its line',
    patches: [
      worker(
        "    if ending == 'hold' and redis.call('EXISTS', base .. id) == 1 then\n",
        '    if false then\n',
      ),
    ],
    killedBy: { test: BATCH, name: 'holds its line' },
  },
  {
    rule: 'a batch stops when the lock on one of its jobs is lost',
    patches: [source('worker/run/running-jobs', '    batch?.abort(error)\n', '')],
    killedBy: { test: BATCH, name: 'stops as a whole' },
  },
  {
    rule: 'the cancel of one job does not stop its batch',
    patches: [
      source(
        'worker/run/running-jobs',
        'if (running.batch === undefined) running',
        'if (running.signal) running',
      ),
    ],
    killedBy: { test: BATCH, name: 'continues when one of its jobs is cancelled' },
  },
  {
    rule: 'a batch that is stopped gives its jobs back',
    patches: [run('if (isGivenBack(first.signal.reason) || ', 'if (false && ')],
    killedBy: { test: BATCH, name: 'is requeued by drain' },
  },
  {
    rule: 'slots that are set count',
    patches: [worker('limits.slots, limits.areSet = entry.slots, true', '_ = 0', 'limits-library')],
    killedBy: { test: LIMITS, name: 'slots that are set' },
  },
  {
    rule: 'a start counts for the rate',
    patches: [worker('ipairs(counts and starts or {})', 'ipairs({})', 'limits-library')],
    killedBy: { test: LIMITS, name: 'is used up to its end' },
  },
  {
    rule: 'a rate counts the cost of a job',
    patches: [worker('+ interval * cost\n', '+ interval\n', 'limits-library')],
    killedBy: { test: LIMITS, name: 'counts the cost' },
  },
  {
    rule: 'a line that is opened is swept again',
    patches: [
      worker(
        "redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', 0, resource) -- The",
        '-- The',
        'limits',
      ),
    ],
    killedBy: { test: LIMITS, name: 'is not swept before it opens' },
  },
  {
    rule: 'a line that is closed for long is not swept',
    patches: [worker('  closeLine(head.lines, at)\n', '', 'limits-library')],
    killedBy: { test: LIMITS, name: 'is not swept before it opens' },
  },
  {
    rule: 'a resource that sleeps after a 429 starts nothing',
    patches: [
      worker('return limits and limits.closedUntil or', 'return', 'line-library'),
      worker('if limits.closedUntil then limits.slots = 0 end', '', 'limits-library'),
    ],
    killedBy: { test: LIMITS, name: 'after a 429' },
  },
  {
    rule: 'a tenant that comes back has no credit',
    patches: [worker('exactly(math.max(used, time or 0))', 'exactly(used)', 'shares-library')],
    killedBy: { test: SHARES },
  },
  {
    rule: 'work counts by the weight of its tenant',
    patches: [worker('used + workedMs / weight', 'used + workedMs', 'shares-library')],
    killedBy: { test: SHARES, name: 'weights' },
  },
  {
    rule: 'a start counts for its tenant at once',
    patches: [
      worker(
        "      if jobs[2] then redis.call('ZADD', ready, now, tenant) end\n",
        '',
        'shares-library',
      ),
    ],
    killedBy: { test: SHARES, name: 'takes them from tenants in turn' },
  },
  {
    rule: 'a start that is refused counts nothing for its tenant',
    patches: [worker('    charge(base, share, -charged)\n', '', 'line-library')],
    killedBy: { test: SHARES, name: 'a start that is refused' },
  },
]

/**
 * Attacks that had two holders or a smaller token, without the rule that closes each: the
 * simulation must find them in worlds that are drawn at random.
 */
const attacks: readonly Mutant[] = [
  without('nested calls join only on as many slots', '01'),
  {
    rule: 'attack 04: a quarantine is counted on the wall clock of the master',
    patches: [
      inModel(
        "quarantineMs: Number(memory.hash(keys.master).get('votesInMs') ?? '0'),",
        "quarantineMs: Math.max(0, Number(memory.hash(keys.master).get('votesFromMs') ?? '0') - nowMsOf(call)),",
      ),
      inModel(
        '{ ...record, quarantine, votesInMs })',
        "{ ...record, quarantine, votesInMs, ...(known.get('runId') !== runId && votesInMs !== '0' && { votesFromMs: String(Math.floor(nowUs / 1000) + Number(votesInMs)) }) })",
      ),
    ],
    killedBy: { seeds: 500, clocks: 'stepped' },
  },
  without('the longer trust is of one instant', '07', 'jumps'),
  without(
    'memory is durable only where every write waits for the disk, also during a rewrite',
    '10',
    'sane',
  ),
  without('a master out of line grants nothing that counts', '14', 'stepped'),
]

export const mutants: readonly Mutant[] = [...rules, ...attacks]

function without(rule: string, attack: string, clocks?: Clocks): Mutant {
  const { patches = [] } = rules.find((each) => each.rule === rule) ?? {}
  const killedBy = { seeds: 500, ...(clocks !== undefined && { clocks }) }
  return { rule: `attack ${attack}: without '${rule}'`, patches, killedBy }
}
