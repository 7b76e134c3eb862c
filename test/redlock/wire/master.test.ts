/**
 * A connection to one master: answers inside its deadline or says why not, and never for a server
 * it has not enrolled.
 */
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { systemClock } from '../../../src/clock.ts'
import { callOf } from '../../../src/redlock/wire/calls.ts'
import type { MasterAddress } from '../../../src/redlock/wire/connection-settings.ts'
import { defineScript } from '../../../src/lua.ts'
import { MasterConnection } from '../../../src/redlock/wire/master-connection.ts'
import { callMaster, type MasterState } from '../../../src/redlock/wire/master.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { until } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { startProxy } from '../../support/proxy.ts'
import { LIMITS } from './connection.ts'

assertNoLeaks()
const count = callOf({ verb: 'count', token: 'runs' })
/** Answers as the lock's script does; each call counts up the key that it names. */
const script = defineScript(
  'batch',
  `
local replies, marks = {''}, ''
for verb, key in string.gmatch(ARGV[1], '(%l+)%z(%Z*)%z') do
  replies[#replies + 1] = verb == 'count' and redis.call('INCR', key) or {'able'}
  marks = marks .. '*'
end
replies[1] = marks .. ' 0 0'
return replies
`,
)
const NO_HURRY_MS = 10_000

let server: TestServer
let watcher: Redis
const opened: MasterConnection[] = []

beforeAll(async () => {
  server = await startServer()
  watcher = new Redis(server.url, { retryStrategy: () => 20 })
  watcher.on('error', () => undefined) // One test kills the server.
})

afterEach(async () => {
  for (const master of opened.splice(0)) master.close()
  await watcher.flushall()
})

afterAll(async () => {
  watcher.disconnect()
  await server.close()
})

interface Connected {
  readonly master: MasterConnection
  /** The run ids that asked to be admitted, in their order. */
  readonly admitted: readonly string[]
  readonly states: readonly MasterState[]
}

function connect(address: MasterAddress): Connected {
  const admitted: string[] = []
  const states: MasterState[] = []
  const master = new MasterConnection({
    index: 0,
    address,
    limits: LIMITS,
    clock: systemClock,
    script,
    admit: ({ runId }) => {
      admitted.push(runId)
      return Promise.resolve(undefined)
    },
    onState: (state) => states.push(state),
    onTime: () => undefined,
  })
  opened.push(master)
  return { master, admitted, states }
}

it('answers before it is ready: not now, and certainly not run', async () => {
  const { master } = connect(server.url)
  expect(await callMaster(master, systemClock, count, NO_HURRY_MS)).toMatchObject({
    kind: 'failed',
    reason: 'not-ready',
    mayHaveRun: false,
  })
  expect(await master.enrolment.whenEnrolled()).toBe(true)
  expect(await callMaster(master, systemClock, count, NO_HURRY_MS)).toEqual({
    kind: 'replied',
    reply: 1,
  })
})

it('a connection that the server closed was connected', async () => {
  const { master, states } = connect(server.url)
  await master.enrolment.whenEnrolled()
  await watcher.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  await until('it is known', () => states.some(({ status }) => status === 'connecting'))
  const detail = 'the connection was closed'
  expect(states).toContainEqual(expect.objectContaining({ status: 'connecting', detail }))
})

it('gives up at its deadline a call that may have run', async () => {
  await using proxy = await startProxy(server.port)
  const { master } = connect(proxy.url)
  await master.enrolment.whenEnrolled()
  const hold = proxy.holdReplies()
  expect(await callMaster(master, systemClock, count, 20)).toMatchObject({
    reason: 'timeout',
    mayHaveRun: true,
  })
  await hold.held
  expect(await watcher.get('runs')).toBe('1')
  hold.release()
  master.close()
  await until('it is closed', () => proxy.counters.open === 0)
})

it('enrols a server again that does not know its scripts: it may have restarted', async () => {
  const { master, admitted } = connect(server.url)
  await master.enrolment.whenEnrolled()
  await watcher.script('FLUSH')
  const missed = await callMaster(master, systemClock, count, NO_HURRY_MS)
  expect(missed).toMatchObject({ kind: 'failed', reason: 'error', mayHaveRun: false })
  expect(JSON.stringify(missed)).toContain('NOSCRIPT')
  expect(master.state.status).toBe('enrolling')
  expect(master.enrolment.runId).toBe('')
  expect(await watcher.get('runs')).toBeNull()

  expect(await master.enrolment.whenEnrolled()).toBe(true)
  expect(admitted).toHaveLength(2)
  expect(await callMaster(master, systemClock, count, NO_HURRY_MS)).toEqual({
    kind: 'replied',
    reply: 1,
  })
})

it('does not vote for a server that restarted before the new process is enrolled', async () => {
  const { master, admitted } = connect(server.url)
  await master.enrolment.whenEnrolled()
  await server.kill()
  expect(await callMaster(master, systemClock, count, NO_HURRY_MS)).toMatchObject({
    kind: 'failed',
  })
  await server.restart()
  expect(await master.enrolment.whenEnrolled()).toBe(true)
  expect(admitted).toHaveLength(2)
  expect(new Set(admitted).size).toBe(2)
  expect(master.enrolment.runId).toBe(admitted[1])
  expect(await callMaster(master, systemClock, count, NO_HURRY_MS)).toEqual({
    kind: 'replied',
    reply: 1,
  })
})

/** Everything that would send a command later, again, or wait for it without an end. */
const UNSAFE = {
  enableOfflineQueue: true,
  autoResendUnfulfilledCommands: true,
  maxRetriesPerRequest: 20,
  enableAutoPipelining: true,
  commandTimeout: 60_000,
  socketTimeout: 60_000,
  connectionName: 'theirs',
} as const

it('overrides options of the address that would break it', async () => {
  await using proxy = await startProxy(server.port)
  const { master } = connect({ host: '127.0.0.1', port: proxy.port, ...UNSAFE })
  expect(await master.enrolment.whenEnrolled()).toBe(true)
  expect(await watcher.client('LIST')).not.toContain('name=theirs')

  const hold = proxy.holdReplies()
  const call = callMaster(master, systemClock, count, NO_HURRY_MS)
  await hold.held
  hold.lose()
  expect(await call).toMatchObject({ kind: 'failed', reason: 'closed', mayHaveRun: true })
  expect(await master.enrolment.whenEnrolled()).toBe(true)
  expect(await watcher.get('runs')).toBe('1')

  await proxy.drop()
  // A silent socket is replaced, long before the user's minute is over.
  expect(await callMaster(master, systemClock, count, NO_HURRY_MS)).toMatchObject({
    kind: 'failed',
  })
  await proxy.pass()
  master.close()
  await until('it is closed', () => proxy.counters.open === 0)
})
