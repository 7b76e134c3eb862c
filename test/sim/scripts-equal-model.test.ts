/**
 * Random sequences of every script with random arguments, on a real server and on the simulated
 * master. Replies and what is left behind must be the same. Lifetimes are either longer than the
 * test or waited out in full, so that nothing depends on how fast the machine is.
 */
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { callOf, readBatch, type Asked } from '../../src/redlock/wire/calls.ts'
import { batchScript } from '../../src/redlock/wire/batch-script.ts'
import { enrolScript } from '../../src/redlock/fleet/admission.ts'
import { waitedScript } from '../../src/redlock/fleet/voter.ts'
import { keyspace } from '../../src/redlock/keyspace.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import {
  bootstrapScript,
  inFull,
  readsTime,
  simulateProcedure,
  simulateScript,
} from './simulated-scripts.ts'
import { SimulatedMemory } from './simulated-memory.ts'

const SCRIPTS = new Map(
  [enrolScript, waitedScript, bootstrapScript].map((script) => [script.name, script]),
)
const RUN_IDS = ['run-1', 'run-2']
const MAX_LEASE_MS = 600_000
const LONG_MS = [200_000, 400_000, 600_000]
const FENCE_TTL_MS = 100 * 365 * 86_400_000
const MAX_SKEW_MS = 200_000
/** Both clocks are this machine's, but they are not read at the same moment. */
const TOLERANCE_MS = 10_000
const KEYS = keyspace('twin')
const TOKENS = ['a', 'b', 'c']

/** What a client believes of its fleet. */
type Terms = readonly [maxLeaseMs: number, fleetSize: number]
const TERMS: Terms = [MAX_LEASE_MS, 5]

/** A batch of these entries, by a client with this run id and these terms. */
interface Sending {
  readonly kind: 'batch'
  readonly runId: string
  readonly terms: Terms
  readonly asked: readonly Asked[]
}

interface Sent {
  readonly kind: 'script'
  readonly name: string
  readonly args: readonly (string | number)[]
}

type Step = Sending | Sent | { readonly kind: 'flush' } | { readonly kind: 'wait' }

const token = fc.constantFrom(...TOKENS)
/**
 * Small ones meet the counters that other grants left; the large one is what a clock would propose.
 */
const counter = fc.oneof(fc.integer({ min: 1, max: 8 }), fc.constant(1_000_000_000_000_001))
const resources = fc.constantFrom<readonly string[]>(['r'], ['r'], ['s'], ['r', 's'])
const leaseMs = fc.constantFrom(...LONG_MS)
const runId = fc.constantFrom(...RUN_IDS, 'run-1', 'run-1', 'run-1')
const terms = fc.constantFrom<Terms>(TERMS, TERMS, TERMS, [300_000, 5], [MAX_LEASE_MS, 3])

/** `far` proposals are an hour ahead of the clock and refused. */
const proposal = fc.oneof(counter, fc.constant('near' as const), fc.constant('far' as const))

function steps(lease: fc.Arbitrary<number>, waitable: boolean): fc.Arbitrary<Step> {
  const acquire = fc
    .tuple(runId, terms, token, lease, proposal, resources, fc.constantFrom('', 'w1', 'w2', 'w3'))
    .map(([run, max, name, ms, proposed, named, waiter]) => {
      const waitMs = waiter === '' ? 0 : ms % 400_000
      const terms = { leaseMs: ms, fence: proposalUs(proposed), waitMs, waiter }
      return sending(run, max, { verb: 'acquire', resources: named, token: name, ...terms })
    })
  const confirm = fc
    .tuple(runId, terms, token, counter, resources)
    .map(([run, max, name, t, named]) =>
      sending(run, max, { verb: 'confirm', resources: named, token: name, fence: t }),
    )
  const renew = fc
    .tuple(fc.constantFrom('extend', 'heal'), runId, terms, token, lease, counter, resources)
    .map(([verb, run, max, name, ms, t, named]) =>
      sending(run, max, { verb, resources: named, token: name, leaseMs: ms, fence: t }),
    )
  const release = fc
    .tuple(
      token,
      fc.oneof(fc.constant(0), lease),
      resources,
      fc.oneof(fc.constant(0), lease),
      fc.constantFrom('', 'w1', 'w2'),
    )
    .map(([name, tombstoneMs, named, graceMs, waiter]) => {
      const lives = { leaseMs: tombstoneMs, waitMs: graceMs }
      return plain({ verb: 'release', resources: named, token: name, waiter, ...lives })
    })
  const withdraw = fc
    .tuple(fc.constantFrom('w1', 'w2', 'w3'), resources)
    .map(([waiter, named]) => plain({ verb: 'release', resources: named, waiter }))
  const inspect = resources.map((named) => plain({ verb: 'inspect', resources: named }))
  const waitedFor = fc
    .tuple(fc.constantFrom(',,', ',w1,', ',w1,w3,'), resources)
    .map(([waiter, named]) => plain({ verb: 'waited-for', resources: named, waiter }))
  const trial = fc.constant(plain({ verb: 'trial' }))
  const enrol = fc
    .tuple(
      ...([runId, terms, fc.constantFrom(0, 300_000)] as const),
      ...([fc.constantFrom(0, 1), fc.constantFrom(0, 1, 1), fc.constantFrom('c1', 'c2')] as const),
      ...([fc.constantFrom('q1', 'q2'), fc.constantFrom(FENCE_TTL_MS, FENCE_TTL_MS, 1)] as const),
    )
    .map(([run, [max, size], quarantineMs, durable, first, client, name, fenceTtlMs]): Sent => {
      const args = [run, max, quarantineMs, durable, size, first, client, name, fenceTtlMs]
      return { kind: 'script', name: 'enrol', args }
    })
  const waited = fc
    .tuple(fc.constantFrom('', 'q1', 'q2'), fc.constantFrom(0, 100_000, 400_000))
    .map(([name, leftMs]): Sent => ({ kind: 'script', name: 'waited', args: [name, leftMs] }))
  const bootstrap = fc
    .tuple(runId, terms)
    .map(([run, own]): Sent => ({ kind: 'script', name: 'bootstrap', args: [run, ...own] }))
  const batch = fc
    .array(fc.oneof(release, release, withdraw, acquire, renew), { minLength: 2, maxLength: 6 })
    .map((entries): Sending => {
      const asked = entries.flatMap((entry) => entry.asked)
      return { kind: 'batch', runId: 'run-1', terms: TERMS, ...entries[0], asked }
    })
  return fc.oneof(
    { arbitrary: batch, weight: 6 },
    { arbitrary: acquire, weight: 8 },
    { arbitrary: confirm, weight: 3 },
    { arbitrary: renew, weight: 12 },
    { arbitrary: release, weight: 3 },
    { arbitrary: withdraw, weight: 1 },
    { arbitrary: inspect, weight: 1 },
    { arbitrary: waitedFor, weight: 2 },
    { arbitrary: trial, weight: 1 },
    { arbitrary: enrol, weight: 2 },
    { arbitrary: bootstrap, weight: 1 },
    { arbitrary: waited, weight: 1 },
    { arbitrary: fc.constant<Step>({ kind: 'flush' }), weight: waitable ? 0 : 1 },
    { arbitrary: fc.constant<Step>({ kind: 'wait' }), weight: waitable ? 4 : 0 },
  )
}

function sending(run: string, own: Terms, asked: Asked): Sending {
  return { kind: 'batch', runId: run, terms: own, asked: [asked] }
}

/** What asks for no enrolment. */
function plain(asked: Asked): Sending {
  return sending('run-1', TERMS, asked)
}

function proposalUs(proposed: number | 'near' | 'far'): number {
  if (typeof proposed === 'number') return proposed
  return (Math.floor(Date.now() / 1000) + (proposed === 'near' ? 60 : 3_600)) * 1_000_000
}

const FIRST: Sent = { kind: 'script', name: 'bootstrap', args: ['run-1', ...TERMS] }

let server: TestServer
let redis: Redis

beforeAll(async () => {
  server = await startServer()
  redis = new Redis(server.url)
})

afterAll(async () => {
  await redis.quit()
  await server.close()
})

/** @returns the first word of the last reply. */
async function onBoth(memory: SimulatedMemory, step: Sending | Sent): Promise<unknown> {
  const nowUs = Date.now() * 1000
  if (step.kind === 'script') {
    const { name } = step
    const { lua = '' } = SCRIPTS.get(name) ?? {}
    const [own = ''] = step.args.map(String)
    // A quarantine is named by its client, and by the time of the server.
    const named = (stored?: string | null): string =>
      name === 'waited' && withoutTime(stored) === `${own}@` ? (stored ?? '') : own
    const rest = step.args.slice(1).map(String)
    const stored = await redis.hget(KEYS.master, 'quarantine')
    const real = await redis.eval(lua, 1, KEYS.master, named(stored), ...rest)
    const args = [named(memory.hash(KEYS.master).get('quarantine')), ...rest]
    const simulated = simulateScript(name, { memory, keys: [KEYS.master], args, nowUs })
    expect(comparable(real), `${name} ${args.join(' ')}`).toEqual(comparable(simulated, near))
    return Array.isArray(simulated) ? simulated[0] : 'done'
  }
  const { runId: run, asked } = step
  const [longestMs, fleetSize] = step.terms
  const limits = { maxLeaseMs: longestMs, fenceTtlMs: FENCE_TTL_MS, maxClockSkewMs: MAX_SKEW_MS }
  const constants = { namespace: 'twin', ...limits, fleetSize }
  const entries = asked.map((each) => callOf(each).entry).join('')
  const answer = await redis.eval(batchScript(constants).lua, 0, entries, run)
  const publish = (): void => undefined
  const { replies, serverMs } = readBatch(answer, asked.length)
  let isTimed = false
  let word: unknown
  for (const [place, each] of asked.entries()) {
    const about = { memory, asked: each, runId: run, constants, nowUs, publish }
    const simulated = simulateProcedure(about)
    isTimed = isTimed || readsTime(each, memory, constants)
    expect(comparable(replies[place]), JSON.stringify(asked)).toEqual(comparable(simulated, near))
    const full = inFull(each, simulated)
    word = Array.isArray(full) ? full[0] : full
  }
  expect(Number.isFinite(serverMs)).toBe(isTimed)
  return word
}

/** As it is, of the real server. */
const exact = (ms: number): unknown => ms
/** Of the simulated master: within half of a tolerance. */
const near = (ms: number): unknown => expect.closeTo(ms, -Math.log10(TOLERANCE_MS))

/** Times and lifetimes are near each other; everything else is the same. */
function comparable(reply: unknown, time = exact): readonly unknown[] {
  if (!Array.isArray(reply)) return [reply]
  const [word, ...fields] = reply as readonly unknown[]
  const isCount = word === 'counter' || word === 'granted' || word === 'waited'
  return [
    word,
    ...fields.map((field) =>
      typeof field !== 'number' || isCount ? withoutTime(field) : time(field),
    ),
  ]
}

interface Kept {
  readonly value: unknown
  readonly ttlMs: number
}

async function realKeys(): Promise<Map<string, Kept>> {
  const kept = new Map<string, Kept>()
  for (const key of (await redis.keys('twin:*')).sort()) {
    const ttlMs = await redis.pttl(key)
    if (ttlMs !== -2) kept.set(key, { value: comparableValue(key, await realValue(key)), ttlMs })
  }
  return kept
}

function simulatedKeys(memory: SimulatedMemory): Map<string, Kept> {
  return new Map(
    memory
      .keys()
      .sort()
      .map((key) => {
        const value = memory.get(key) ?? Object.fromEntries(memory.hash(key))
        return [key, { value: comparableValue(key, value, near), ttlMs: memory.pttl(key) }]
      }),
  )
}

async function realValue(key: string): Promise<unknown> {
  if (key === KEYS.master) return redis.hgetall(key)
  if (!isWaiters(key)) return redis.get(key)
  // ioredis 6 makes pairs of them, ioredis 5 does not.
  const flat = ((await redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES')) as unknown[]).flat()
  return Object.fromEntries(
    flat.flatMap((member, index) => (index % 2 === 0 ? [[member, flat[index + 1]]] : [])),
  )
}

const isWaiters = (key: string): boolean => key.startsWith(KEYS.waiters(''))

/**
 * Times are near each other, and those who came within one millisecond on one side may have come in
 * two on the other.
 */
function comparableValue(key: string, value: unknown, time = exact): unknown {
  if (key.startsWith(KEYS.next(''))) return String(value).split(',').sort()
  if (isWaiters(key)) {
    return Object.entries(value as Readonly<Record<string, string>>)
      .map(([member, score]) => [member, time(Number(score))])
      .sort()
  }
  if (key === KEYS.master) {
    const record = value as Readonly<Record<string, string>>
    return { ...record, quarantine: withoutTime(record['quarantine']) }
  }
  return value
}

function withoutTime(value: unknown): unknown {
  return typeof value === 'string' ? value.replace(/(?<=^q\d@)\d+$/, '') : value
}

async function compareKeys(memory: SimulatedMemory): Promise<void> {
  const [real, simulated] = [await realKeys(), simulatedKeys(memory)]
  const values = (kept: Map<string, Kept>): unknown =>
    [...kept].map(([key, { value }]) => [key, value])
  expect(values(real)).toEqual(values(simulated))
  for (const [key, { ttlMs }] of real) {
    const expected = simulated.get(key)?.ttlMs ?? 0
    expect(Math.abs(ttlMs - expected), `time to live of ${key}`).toBeLessThan(TOLERANCE_MS)
    if (key !== KEYS.master) expect(ttlMs).toBeGreaterThan(0)
  }
}

test('replies, keys, values and lifetimes are the same after any sequence', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(steps(leaseMs, false), { minLength: 5, maxLength: 40 }),
      async (sequence) => {
        await redis.flushall()
        const memory = new SimulatedMemory(Date.now)
        for (const step of [FIRST, ...sequence]) {
          const word =
            step.kind === 'batch' || step.kind === 'script' ? await onBoth(memory, step) : undefined
          // The next one may change the lifetime again.
          if (word === 'extended') await compareKeys(memory)
          if (step.kind !== 'flush') continue
          await redis.flushall()
          memory.forgetAll()
        }
        await compareKeys(memory)
      },
    ),
    { numRuns: 150 },
  )
})

/** Long enough that no key expires while a sequence runs, and short enough to wait for it. */
const SHORT_MS = 1_500

test('keys expire alike', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(steps(fc.constant(SHORT_MS), true), { minLength: 4, maxLength: 10 }),
      async (sequence) => {
        await redis.flushall()
        const memory = new SimulatedMemory(Date.now)
        const waits = sequence.findIndex(({ kind }) => kind === 'wait')
        for (const [index, step] of [FIRST, ...sequence].entries()) {
          if (step.kind === 'batch' || step.kind === 'script') await onBoth(memory, step)
          if (step.kind === 'wait' && index === waits + 1) {
            await new Promise((resolve) => setTimeout(resolve, SHORT_MS + 50))
          }
        }
        await compareKeys(memory)
      },
    ),
    { numRuns: 2 },
  )
})
