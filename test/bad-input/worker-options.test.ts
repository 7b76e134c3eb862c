/** Options of a worker that cannot be right: a TypeError by name, before anything connects. */
import type { ConnectionOptions } from 'bullmq'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  batchProcessor,
  LockedWorker,
  lockedProcessor,
  Redlock,
  type LeasedProcessor,
  type LockedProcessorOptions,
  silentLogger,
} from '../../src/index.ts'
import { assertNoLeaks } from '../support/leaks.ts'

assertNoLeaks()
/** Nobody listens there; nothing that is refused gets as far as to find out. */
const NOWHERE: ConnectionOptions = { host: '127.0.0.1', port: 1 }
const processor: LeasedProcessor<unknown, unknown> = () => Promise.resolve('done')
const resource = (): string => 'r'
let redlock: Redlock

beforeAll(() => {
  redlock = new Redlock({ masters: ['redis://127.0.0.1:1'], logger: silentLogger })
})

afterAll(async () => {
  await redlock.close()
})

function refusal(make: () => unknown): string {
  try {
    make()
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError)
    return error instanceof Error ? error.message : ''
  }
  throw new Error('It was not refused')
}

/** The same mistake in a `LockedWorker` and, where it can be made there, in a `lockedProcessor`. */
function refusals(options: object, work: unknown = processor): readonly string[] {
  const { redlock: locks, ...rest } = { redlock, resource, ...options }
  const ofWorker = { ...rest, connection: NOWHERE, redlock: locks }
  const asWorker = (): unknown => new LockedWorker('q', work as typeof processor, ofWorker)
  const asProcessor = (): unknown =>
    lockedProcessor(locks, rest as LockedProcessorOptions, work as typeof processor)
  return [refusal(asWorker), refusal(asProcessor)]
}

it('refuses a call without options', () => {
  const message = refusal(() => new LockedWorker('q', processor, undefined as never))
  expect(message).toContain('`options` to be an object with `connection`, `redlock` and `resource`')
})

it.each([
  [
    'no redlock',
    { redlock: undefined },
    '`redlock` to be a Redlock or another lock service, got `undefined`',
  ],
  [
    'a URL as redlock',
    { redlock: 'redis://x' },
    "a Redlock or another lock service, got `'redis://x'` (string)",
  ],
  ['no resource', { resource: undefined }, 'a function of the job, such as (job) =>'],
  ['a resource that is a name', { resource: 'customer:1' }, "got `'customer:1'` (string)"],
  ['too short a lease', { leaseMs: 5 }, 'Expected `leaseMs` to be an integer'],
  ['a lease that is no number', { leaseMs: '10s' }, "got `'10s'` (string)"],
  ['a lease longer than the fleet allows', { leaseMs: 60_000 }, 'at most `maxLeaseMs` (30000'],
  ['a hold shorter than the lease', { maxHoldMs: 5 }, 'an integer >= 10000'],
])('%s', (_what, options, expected) => {
  const [option = ''] = Object.keys(options)
  for (const message of refusals(options)) {
    expect(message).toContain(`Expected \`${option}\` to be `)
    expect(message).toContain(expected)
  }
})

it.each([
  ['maxWaitMS', 'Is it `maxWaitMs`?'],
  ['recource', 'Is it `resource`?'],
  ['ttl', 'There are '],
])('refuses an option that does not exist: %s', (name, hint) => {
  for (const message of refusals({ [name]: 5_000 })) {
    expect(message).toContain(`There is no option \`${name}\`. ${hint}`)
  }
})

it('refuses a connection that renames keys', () => {
  const connection = { host: '127.0.0.1', port: 1, keyPrefix: 'app:' }
  const message = refusal(() => new LockedWorker('q', processor, { connection, redlock, resource }))
  expect(message).toContain('Expected `connection.keyPrefix` to be absent: use the option `prefix`')
})

it('refuses fresh results without lines', () => {
  const dedupe = { resultTtlMs: 1_000, fresh: true }
  const options = { connection: NOWHERE, redlock, resource, dedupe, order: 'relaxed' } as const
  const message = refusal(() => new LockedWorker('q', processor, options))
  expect(message).toContain('Expected `dedupe.fresh` to be absent with order')
})

it('refuses to remove failed jobs that hold their line', () => {
  const removeOnFail = { count: 1 }
  const options = {
    connection: NOWHERE,
    redlock,
    resource,
    removeOnFail,
    onFailure: 'block',
  } as const
  const message = refusal(() => new LockedWorker('q', processor, options))
  expect(message).toContain("Expected `removeOnFail` to be absent with `onFailure: 'block'`")
})

it.each(['dedupe', 'checkpoints', 'onFailure', 'order', 'burstMs'])(
  'refuses what only a LockedWorker keeps in a processor of another worker: %s',
  (name) => {
    const options = { resource, [name]: true } as LockedProcessorOptions
    const message = refusal(() => lockedProcessor(redlock, options, processor))
    expect(message).toContain(`There is no option \`${name}\`.`)
  },
)

it('refuses batches in a processor of another worker', () => {
  const batch = batchProcessor<unknown>({ size: 2 }, () => Promise.resolve([]))
  const message = refusal(() => lockedProcessor(redlock, { resource }, batch))
  expect(message).toContain('Expected `processor` to be of one job: batches need a LockedWorker')
})

it('refuses a misspelled option of BullMQ', () => {
  const [message] = refusals({ concurency: 5 })
  expect(message).toContain('There is no option `concurency`. Is it `concurrency`?')
})

it('refuses a processor that is the path of a file', () => {
  for (const message of refusals({}, '/srv/app/charge.js')) {
    expect(message).toContain('Expected `processor` to be a function of (job, lease)')
    expect(message).toContain('a sandboxed processor file cannot be given a lease')
    expect(message).toContain('Call it from the function')
    expect(message).toContain("'/srv/app/charge.js'")
  }
})

it.each([
  [
    'maxStartedAttempts',
    3,
    'started several times. Bound failures with `attempts`',
    '`3` (number)',
  ],
  ['skipLockRenewal', true, 'a job without its BullMQ lock runs twice', '`true` (boolean)'],
])("BullMQ's own `%s`", (option, value, why, got) => {
  const options = { connection: NOWHERE, redlock, resource, [option]: value }
  const message = refusal(() => new LockedWorker('q', processor, options))
  expect(message).toContain(`Expected \`${option}\` to be absent`)
  expect(message).toContain(why)
  expect(message).toContain(got)
})
