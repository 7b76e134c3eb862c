/**
 * Rules of the protocol, each with the smallest change to the source that takes it away. The suite must notice
 * every one of them; a rule whose loss nobody notices is either not tested or not needed.
 *
 * Where a rule lives in a script, the simulated master has it too: both are changed for the simulation, and only
 * the Lua for the comparison of the two.
 */
import type { Removable } from './rules.ts'

export interface Patch {
  /** From the root of the project. */
  readonly file: string
  /** Must occur exactly once. */
  readonly find: string
  readonly replace: string
  /** It changes Lua, which the simulated master has in TypeScript. */
  readonly lua?: true
}

export interface Mutant {
  readonly rule: string
  readonly patches: readonly Patch[]
  /** The same rule in the exhaustive model. */
  readonly model?: Removable
  /** What is expected to notice it first; the others are asked when it does not. */
  readonly caughtBy: 'simulation' | 'model' | 'tests'
}

/** In the long form, the short form or the enrolment: `file` below `src/redlock`. */
const lua = (file: string, find: string, replace: string): Patch => ({
  file: `src/redlock/${file}.ts`,
  find,
  replace,
  lua: true,
})
const twin = (find: string, replace: string): Patch => ({
  file: 'src/testing/simulated-scripts.ts',
  find,
  replace,
})
const source = (file: string, find: string, replace: string): Patch => ({
  file: `src/${file}.ts`,
  find,
  replace,
})

export function isLua(patch: Patch): boolean {
  return patch.lua === true
}

export const mutants: readonly Mutant[] = [
  {
    rule: 'quorum is a majority',
    patches: [
      source(
        'redlock/quorum/quorum',
        'return Math.floor(masters / 2) + 1',
        'return Math.floor(masters / 2)',
      ),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'fresh token for every attempt',
    patches: [
      source('redlock/attempt', '`${randomUUID()}@${owner}`', '`${resources.join()}@${owner}`'),
      source('redlock/attempt', "import { randomUUID } from 'node:crypto'\n", ''),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'time counts from before the first command',
    patches: [
      source(
        'redlock/attempt',
        'const when = { startedAt, tookMs, trust }',
        'const when = { startedAt, tookMs, trust: trustFrom(now, leaseMs, driftFactor) }',
      ),
    ],
    caughtBy: 'simulation',
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
    caughtBy: 'simulation',
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
    caughtBy: 'simulation',
  },
  {
    rule: 'trust is checked after the votes',
    patches: [
      source(
        'redlock/attempt',
        'if (remainingMs(trust, now) <= 0) {',
        'if (remainingMs(trust, now) < 0) {',
      ),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'a master that may have forgotten is quarantined',
    patches: [
      lua(
        'fleet/enrol-scripts',
        'votesFromMs = nowMs + tonumber(ARGV[3]) end',
        'votesFromMs = nowMs end',
      ),
      twin('votesFromMs = nowMs + Number(at(args, 3))', 'votesFromMs = nowMs'),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'the run id must match, a kept record proves nothing',
    patches: [
      lua(
        'fleet/enrol-scripts',
        'if known[1] ~= ARGV[1] then\n  local kept',
        'if not known[1] then\n  local kept',
      ),
      twin("if (known.get('runId') !== runId) {", "if (!known.has('runId')) {"),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'whoever counts another number of masters is not enrolled',
    patches: [
      lua(
        'fleet/enrol-scripts',
        "if known[5] and known[5] ~= ARGV[5] then return {'mismatch'",
        "if false then return {'mismatch'",
      ),
      twin('Object.entries({ maxLeaseMs, fleetSize })', 'Object.entries({ maxLeaseMs })'),
    ],
    caughtBy: 'tests',
  },
  {
    rule: 'whom other masters refuse founds no fleet',
    patches: [
      lua(
        'fleet/enrol-scripts',
        "if not known[1] and ARGV[6] == '0'",
        "if not known[1] and ARGV[6] == '-'",
      ),
      twin(
        "if (!known.has('runId') && at(args, 6) === '0')",
        "if (!known.has('runId') && at(args, 6) === '-')",
      ),
    ],
    caughtBy: 'tests',
  },
  {
    rule: 'whoever counts another number of masters has no vote',
    patches: [
      lua('verbs/library', ' and record[4] == fleetSize', ''),
      twin(" &&\n      record.get('fleetSize') === constants['fleetSize']", ''),
    ],
    caughtBy: 'tests',
  },
  {
    rule: 'proposals far ahead of the server are refused',
    patches: [
      lua('verbs/acquire', 'if aheadMs > tonumber(maxClockSkewMs) then', 'if false then'),
      twin('if (aheadMs > maxClockSkewMs)', 'if (aheadMs > maxClockSkewMs + Infinity)'),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'proposals follow the clock',
    patches: [
      source(
        'redlock/proposal',
        'return Math.floor(this.#clock.wallNow() * 1000)',
        'return Math.floor(this.#clock.wallNow() * 0)',
      ),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'every grant raises the counter',
    patches: [
      lua(
        'verbs/acquire',
        "fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end",
        "fence = string.format('%.0f', counter) end",
      ),
      twin(
        'const next = Math.max(counter + TOKENS_PER_GRANT, proposal)',
        'const next = Math.max(counter, proposal)',
      ),
    ],
    model: 'everyGrantRaises',
    caughtBy: 'simulation',
  },
  {
    rule: 'a lease that is held is not granted',
    patches: [
      lua('verbs/acquire', 'if not free then', 'if not free and holder == token then'),
      twin(
        'if (holder !== undefined && holder !== token && !handedOver) {',
        'if (holder === token && !handedOver && nowMs < 0) {',
      ),
    ],
    model: 'heldIsNotGranted',
    caughtBy: 'simulation',
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
    model: 'confirmIsExact',
    caughtBy: 'model',
  },
  {
    rule: 'confirm checks that the key is mine',
    patches: [
      lua(
        'verbs/confirm',
        "if redis.call('GET', leaseKey(resource)) ~= token then return {'lost'} end\nend\nif flagged",
        "if token == '' then return {'lost'} end\nend\nif flagged",
      ),
      twin(
        "if (memory.get(keys.lease(resource)) !== token) return ['lost']",
        "if (keys.lease(resource) === token) return ['lost']",
      ),
    ],
    model: 'confirmChecksKey',
    caughtBy: 'model',
  },
  {
    rule: 'grants that differ are confirmed',
    patches: [
      source(
        'redlock/attempt',
        'if (!exactlyOnQuorum(poll.votes, counter)) {',
        'if (counter < 0) {',
      ),
      source('redlock/attempt', 'function exactlyOnQuorum(', 'export function exactlyOnQuorum('),
    ],
    model: 'confirmRound',
    caughtBy: 'model',
  },
  {
    rule: 'extend checks that nobody was granted since',
    patches: [
      lua(
        'verbs/extend',
        "if counter > tonumber(fence) then return {'lost', holder or ''} end\n  if holder and holder ~= token then return {'lost', holder} end\n  if not holder then missing",
        "if holder and holder ~= token then return {'lost', holder} end\n  if not holder then missing",
      ),
      twin(
        "if (counterOf(scene, resource) > Number(fence)) return ['lost', holder ?? '']\n    if (holder !== undefined && holder !== token) return ['lost', holder]\n    if (holder === undefined) missing = true",
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n    if (holder === undefined) missing = true",
      ),
    ],
    model: 'extendChecksCounter',
    caughtBy: 'model',
  },
  {
    rule: 'extend checks that the key is mine',
    patches: [
      lua(
        'verbs/extend',
        "if holder and holder ~= token then return {'lost', holder} end\n  if not holder then missing",
        'if not holder then missing',
      ),
      twin(
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n    if (holder === undefined) missing = true",
        'if (holder === undefined) missing = true',
      ),
    ],
    model: 'extendChecksKey',
    caughtBy: 'tests',
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
    caughtBy: 'tests',
  },
  {
    rule: 'extend never creates a key',
    patches: [
      lua(
        'verbs/extend',
        "if missing then return {'missing'} end\nfor _, resource in ipairs(resources) do\n  redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')",
        "for _, resource in ipairs(resources) do\n  redis.call('SET', leaseKey(resource), token, 'PX', leaseMs)",
      ),
      twin(
        "if (missing) return ['missing']\n  for (const resource of resources) {\n    memory.lengthen(keys.lease(resource), leaseMs)",
        "if (missing && leaseMs < 0) return ['missing']\n  for (const resource of resources) {\n    memory.set(keys.lease(resource), token, leaseMs)",
      ),
    ],
    model: 'extendNeverCreates',
    caughtBy: 'simulation',
  },
  {
    rule: 'an extension counts only inside the old trust',
    patches: [
      source(
        'redlock/quorum-lease',
        'this.assertHeld() // An answer counts only inside the old trust.\n',
        '',
      ),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'healing waits for a quorum',
    patches: [
      source(
        'redlock/quorum-lease',
        '    const verdict = await poll.verdict\n',
        '    const verdict = await poll.verdict\n    this.#healMissing(poll.votes, new Set())\n',
      ),
    ],
    model: 'healWaitsForQuorum',
    caughtBy: 'tests',
  },
  {
    rule: 'heal never replaces another holder',
    patches: [
      lua(
        'verbs/heal',
        "if holder and holder ~= token then return {'lost', holder} end\nend\nfor _, resource in ipairs(resources) do\n  if redis.call('SET', leaseKey(resource), token, 'PX', leaseMs, 'NX') == false then",
        "end\nfor _, resource in ipairs(resources) do\n  if redis.call('SET', leaseKey(resource), token, 'PX', leaseMs) == false then",
      ),
      twin(
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n  }\n  for (const resource of resources) {\n    const lease = keys.lease(resource)\n    if (memory.exists(lease)) memory.lengthen(lease, leaseMs)\n    else memory.set",
        '}\n  for (const resource of resources) {\n    const lease = keys.lease(resource)\n    memory.set',
      ),
    ],
    model: 'healNeverReplaces',
    caughtBy: 'simulation',
  },
  {
    rule: 'heal checks that nobody was granted since',
    patches: [
      lua(
        'verbs/heal',
        "if counter > tonumber(fence) then return {'lost', holder or ''} end\n  if holder and holder ~= token then return {'lost', holder} end\nend",
        "if holder and holder ~= token then return {'lost', holder} end\nend",
      ),
      twin(
        "if (counterOf(scene, resource) > Number(fence)) return ['lost', holder ?? '']\n    if (holder !== undefined && holder !== token) return ['lost', holder]\n  }",
        "if (holder !== undefined && holder !== token) return ['lost', holder]\n  }",
      ),
    ],
    model: 'healChecksCounter',
    caughtBy: 'model',
  },
  {
    rule: 'the old holder stops before it hands over',
    patches: [
      source(
        'redlock/quorum-lease',
        "    this.#end('handed-over')\n    this.#released = Promise.resolve()\n",
        '',
      ),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'a grant leaves room for the tokens of those it is passed on to',
    patches: [
      lua(
        'verbs/acquire',
        "if counter + ${TOKENS_PER_GRANT} > tonumber(proposal) then fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end",
        "if counter >= tonumber(proposal) then fence = string.format('%.0f', counter + 1) end",
      ),
      twin(
        'const next = Math.max(counter + TOKENS_PER_GRANT, proposal)',
        'const next = Math.max(counter + TOKENS_PER_GRANT / 64, proposal)',
      ),
    ],
    caughtBy: 'simulation',
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
    caughtBy: 'tests',
  },
  {
    rule: 'a lease that is passed on is no longer than it was',
    patches: [
      source(
        'redlock/quorum-lease',
        'this.#trust = before.#trust\n',
        'this.#trust = trustFrom(grant.startedAt, grant.leaseMs, fleet.settings.driftFactor)\n',
      ),
    ],
    caughtBy: 'simulation',
  },
  {
    rule: 'a lease that is passed on knows which keys are being given back',
    patches: [source('redlock/quorum-lease', '      this.#healing = before.#healing\n', '')],
    caughtBy: 'tests',
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
    caughtBy: 'tests',
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
    caughtBy: 'tests',
  },
  {
    rule: 'whoever leaves a tombstone says that there is one',
    patches: [
      lua('verbs/heal', '  flag(quarantineMs)\n', ''),
      lua('verbs/release', '  flag(tombstoneMs)\n', ''),
      twin("'1', forMs)\n  flag(scene, forMs)\n", "'1', forMs)\n"),
    ],
    caughtBy: 'tests',
  },
  {
    rule: 'an abandoned token leaves a tombstone',
    patches: [
      lua(
        'verbs/acquire',
        "  if reserved and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end\n",
        '',
      ),
      twin("if (isAbandoned(scene, token)) return ['abandoned']\n  let counter", 'let counter'),
    ],
    caughtBy: 'tests',
  },
  {
    rule: 'the short form grants no lease that is held',
    patches: [lua('verbs/acquire', "token, 'NX', 'PX', leaseMs, 'GET')", "token, 'PX', leaseMs)")],
    caughtBy: 'tests',
  },
  {
    rule: 'the short form grants nothing in quarantine',
    patches: [lua('verbs/acquire', 'if not grants or flagged', 'if not enrolled or flagged')],
    caughtBy: 'tests',
  },
  {
    rule: 'the short form refuses proposals far ahead',
    patches: [lua('verbs/acquire', ' or proposed > latestUs', '')],
    caughtBy: 'tests',
  },
  {
    rule: 'the short form looks for tombstones and reservations',
    patches: [lua('verbs/acquire', 'if not grants or flagged or', 'if not grants or')],
    caughtBy: 'tests',
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
    caughtBy: 'tests',
  },
  {
    rule: 'the short form extends only my key',
    patches: [lua('verbs/extend', " or call('GET', leaseKey) ~= token", '')],
    caughtBy: 'tests',
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
    caughtBy: 'tests',
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
    caughtBy: 'tests',
  },
  {
    rule: 'the short form releases only my key',
    patches: [lua('verbs/release', "if call('GET', leaseKey) ~= token then return 0 end", '')],
    caughtBy: 'tests',
  },
  {
    rule: 'the short form leaves tombstones to the long one',
    patches: [lua('verbs/release', " or tombstoneMs ~= '0'", '')],
    caughtBy: 'tests',
  },
]
