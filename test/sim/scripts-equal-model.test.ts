/**
 * Random sequences of every script with random arguments, on a real server and on the simulated master. Replies and
 * what is left behind must be the same. Lifetimes are either longer than the test or waited out in full, so that nothing
 * depends on how fast the machine is.
 */
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  acquireScript,
  bootstrapScript,
  confirmScript,
  enrolScript,
  extendScript,
  healScript,
  releaseScript,
} from '../../src/lock/scripts.ts'
import { keyspace } from '../../src/lock/keyspace.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { simulatedScripts } from '../../src/testing/simulated-scripts.ts'
import { SimulatedMemory } from '../../src/testing/simulated-memory.ts'

const SCRIPTS = new Map(
  [
    acquireScript,
    confirmScript,
    extendScript,
    healScript,
    releaseScript,
    enrolScript,
    bootstrapScript,
  ].map((script) => [script.name, script]),
)
const RUN_IDS = ['run-1', 'run-2']
const MAX_LEASE_MS = 600_000
const LONG_MS = [200_000, 400_000, 600_000]
const FENCE_TTL_MS = 86_400_000
const MAX_SKEW_MS = 200_000
/** Both clocks are this machine's, but they are not read at the same moment. */
const TOLERANCE_MS = 10_000
const KEYS = keyspace('twin')
const TOKENS = ['a', 'b', 'c']

interface Call {
  readonly kind: 'call'
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

type Step = Call | { readonly kind: 'flush' } | { readonly kind: 'wait' }

const token = fc.constantFrom(...TOKENS)
/** Small ones meet the counters that other grants left; the large one is what a clock would propose. */
const counter = fc.oneof(fc.integer({ min: 1, max: 8 }), fc.constant(1_000_000_000_000_001))
const resources = fc.constantFrom<readonly string[]>(['r'], ['r'], ['s'], ['r', 's'])
const leaseMs = fc.constantFrom(...LONG_MS)
const runId = fc.constantFrom(...RUN_IDS, 'run-1', 'run-1', 'run-1')
const maxLeaseMs = fc.constantFrom(MAX_LEASE_MS, MAX_LEASE_MS, MAX_LEASE_MS, 300_000)

function call(
  script: string,
  named: readonly string[],
  name: string,
  args: readonly (string | number)[],
): Call {
  const triples = named.flatMap((each) => [KEYS.lease(each), KEYS.fence(each), KEYS.waiters(each)])
  return { kind: 'call', script, keys: [KEYS.master, KEYS.tombstone(name), ...triples], args }
}

/** `far` proposals are an hour ahead of the clock and refused. */
const proposal = fc.oneof(counter, fc.constant('near' as const), fc.constant('far' as const))

function steps(lease: fc.Arbitrary<number>, waitable: boolean): fc.Arbitrary<Step> {
  const acquire = fc
    .tuple(
      runId,
      maxLeaseMs,
      token,
      lease,
      proposal,
      fc.constantFrom('', ...TOKENS),
      counter,
      resources,
    )
    .map(([run, max, name, ms, proposed, from, fromToken, named]) =>
      call('acquire', named, name, [
        ...[run, max, name, ms, proposalUs(proposed), FENCE_TTL_MS, MAX_SKEW_MS],
        ...[from, from === '' ? 0 : fromToken, ms % 400_000],
      ]),
    )
  const confirm = fc
    .tuple(runId, maxLeaseMs, token, counter, resources)
    .map(([run, max, name, t, named]) =>
      call('confirm', named, name, [run, max, name, t, FENCE_TTL_MS]),
    )
  const renew = fc
    .tuple(fc.constantFrom('extend', 'heal'), runId, maxLeaseMs, token, lease, counter, resources)
    .map(([script, run, max, name, ms, t, named]) =>
      call(script, named, name, [run, max, name, ms, t, FENCE_TTL_MS]),
    )
  const release = fc
    .tuple(token, fc.oneof(fc.constant(0), lease), resources)
    .map(([name, tombstoneMs, named]): Call => {
      const pairs = named.flatMap((each) => [KEYS.lease(each), KEYS.waiters(each)])
      const keys = [KEYS.tombstone(name), ...pairs]
      return { kind: 'call', script: 'release', keys, args: [name, tombstoneMs, 'news', ...named] }
    })
  const enrol = fc
    .tuple(runId, maxLeaseMs, fc.constantFrom(-60_000, 300_000), fc.constantFrom(0, 1))
    .map(([run, max, quarantineMs, durable]): Call => {
      return {
        kind: 'call',
        script: 'enrol',
        keys: [KEYS.master],
        args: [run, max, quarantineMs, durable],
      }
    })
  const bootstrap = fc.tuple(runId, maxLeaseMs).map(([run, max]): Call => {
    return { kind: 'call', script: 'bootstrap', keys: [KEYS.master], args: [run, max] }
  })
  return fc.oneof(
    { arbitrary: acquire, weight: 8 },
    { arbitrary: confirm, weight: 3 },
    { arbitrary: renew, weight: 6 },
    { arbitrary: release, weight: 3 },
    { arbitrary: enrol, weight: 1 },
    { arbitrary: bootstrap, weight: 1 },
    { arbitrary: fc.constant<Step>({ kind: 'flush' }), weight: waitable ? 0 : 1 },
    { arbitrary: fc.constant<Step>({ kind: 'wait' }), weight: waitable ? 4 : 0 },
  )
}

function proposalUs(proposed: number | 'near' | 'far'): number {
  if (typeof proposed === 'number') return proposed
  return (Math.floor(Date.now() / 1000) + (proposed === 'near' ? 60 : 3_600)) * 1_000_000
}

const FIRST: Call = {
  kind: 'call',
  script: 'bootstrap',
  keys: [KEYS.master],
  args: ['run-1', MAX_LEASE_MS],
}

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

/** @returns the first word of the reply. */
async function onBoth(memory: SimulatedMemory, { script, keys, args }: Call): Promise<unknown> {
  const { lua } = SCRIPTS.get(script) ?? {}
  const twin = simulatedScripts.get(script)
  if (lua === undefined || twin === undefined) throw new Error(`There is no script ${script}`)
  const real: unknown = await redis.eval(lua, keys.length, ...keys, ...args)
  const published: string[] = []
  const simulated = twin({
    memory,
    keys,
    args: args.map(String),
    nowUs: Date.now() * 1000,
    publish: (_, message) => published.push(message),
  })
  expect(comparable(real), `${script} ${args.join(' ')}`).toEqual(comparable(simulated))
  return simulated[0]
}

/** Times and lifetimes are near each other; everything else is the same. */
function comparable(reply: unknown): readonly unknown[] {
  const [word, ...fields] = reply as readonly unknown[]
  const timed = ['quarantined', 'taken', 'skewed', 'enrolled'].includes(String(word))
  return [
    word,
    ...fields.map((field, index) => {
      if (typeof field !== 'number') return field
      const isClock = index === 0 && Math.abs(field - Date.now()) < TOLERANCE_MS
      if (isClock) return 'now'
      return timed ? Math.round(field / TOLERANCE_MS) * TOLERANCE_MS : field
    }),
  ]
}

interface Kept {
  readonly value: unknown
  readonly ttlMs: number
}

async function realKeys(): Promise<Map<string, Kept>> {
  const kept = new Map<string, Kept>()
  for (const key of (await redis.keys('twin:*')).sort()) {
    const value = key === KEYS.master ? await redis.hgetall(key) : await redis.get(key)
    const ttlMs = await redis.pttl(key)
    if (ttlMs !== -2) kept.set(key, { value: comparableRecord(value), ttlMs })
  }
  return kept
}

function simulatedKeys(memory: SimulatedMemory): Map<string, Kept> {
  return new Map(
    memory
      .keys()
      .sort()
      .map((key) => {
        const value = key === KEYS.master ? Object.fromEntries(memory.hash(key)) : memory.get(key)
        return [key, { value: comparableRecord(value), ttlMs: memory.pttl(key) }]
      }),
  )
}

function comparableRecord(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const record = value as Readonly<Record<string, string>>
  const votesFromMs = Number(record['votesFromMs'])
  const soon = votesFromMs === 0 ? 0 : Math.round((votesFromMs - Date.now()) / TOLERANCE_MS)
  return { ...record, votesFromMs: soon }
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
          const word = step.kind === 'call' ? await onBoth(memory, step) : undefined
          // The next one may change the lifetime again.
          if (word === 'extended') await compareKeys(memory)
          if (step.kind !== 'flush') continue
          await redis.flushall()
          memory.forgetAll()
        }
        await compareKeys(memory)
      },
    ),
    { numRuns: 200 },
  )
}, 60_000)

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
          if (step.kind === 'call') await onBoth(memory, step)
          if (step.kind === 'wait' && index === waits + 1) {
            await new Promise((resolve) => setTimeout(resolve, SHORT_MS + 50))
          }
        }
        await compareKeys(memory)
      },
    ),
    { numRuns: 3 },
  )
}, 60_000)
