/** The proxy that faults of networks are made with: it does what it counts. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { watchLeaks, type LeakWatch } from '../support/leaks.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'

const SOON = { timeout: 5_000, interval: 2 }

let leaks: LeakWatch
let server: Server
let atServer: Socket[]
let received: string
let proxy: FaultProxy
let clients: Client[]

/** Of a server that echoes: what it reads, and how it ended. */
interface Client {
  readonly socket: Socket
  read: string
  ended: 'open' | 'closed' | 'reset' | 'refused'
}

function client(): Client {
  const one: Client = { socket: connect(proxy.port, '127.0.0.1'), read: '', ended: 'open' }
  one.socket.on('data', (bytes) => (one.read += bytes.toString()))
  one.socket.on('error', (error: NodeJS.ErrnoException) => {
    one.ended = error.code === 'ECONNREFUSED' ? 'refused' : 'reset'
  })
  one.socket.on('close', (hadError) => {
    if (!hadError) one.ended = 'closed'
  })
  clients.push(one)
  return one
}

/** As soon as it is so, with a limit. */
async function soon(get: () => unknown, expected: unknown): Promise<void> {
  await vi.waitFor(() => {
    expect(get()).toEqual(expected)
  }, SOON)
}

async function connected(): Promise<Client> {
  const one = client()
  one.socket.write('a')
  await soon(() => one.read, 'a')
  return one
}

beforeEach(async () => {
  leaks = watchLeaks()
  ;[received, atServer, clients] = ['', [], []]
  server = createServer((socket) => {
    atServer.push(socket)
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      received += bytes.toString()
      socket.write(bytes)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  proxy = await startProxy((server.address() as AddressInfo).port)
})

afterEach(async () => {
  for (const { socket } of [...clients, ...atServer.map((socket) => ({ socket }))]) socket.destroy()
  await proxy.close()
  await once(server.close(), 'close')
  await leaks.assertNone()
})

it('forwards both ways, ends included, and counts', async () => {
  const [one, two] = [await connected(), await connected()]
  one.socket.end('last')
  await soon(() => [one.read, one.ended], ['alast', 'closed'])
  atServer[1]?.resetAndDestroy()
  await soon(() => two.ended, 'reset')
  await soon(() => proxy.counters, {
    ...{ connections: 2, open: 0, resets: 0 },
    requests: { bytes: 6, lost: 0, held: 0, delayed: 0 },
    replies: { bytes: 6, lost: 0, held: 0, delayed: 0 },
  })
})

it.each([
  ['drop', 'a', 'a', { requests: { lost: 1 }, replies: { lost: 1 } }],
  ['dropRequests', 'a', 'anews', { requests: { lost: 1 }, replies: { lost: 0 } }],
  ['dropReplies', 'ax', 'a', { requests: { lost: 0 }, replies: { lost: 2 } }],
] as const)(
  '%s: what was lost stays lost, and resets its connection at the end',
  async (fault, atTheServer, atTheClient, counters) => {
    const one = await connected()
    await proxy[fault]()
    one.socket.write('x')
    if (fault === 'dropReplies') await soon(() => received, atTheServer)
    atServer[0]?.write('news')
    await soon(() => proxy.counters, expect.objectContaining({ open: 1 }))
    await vi.waitFor(() => {
      expect(proxy.counters).toMatchObject(counters)
    }, SOON)
    await soon(() => [received, one.read, one.ended], [atTheServer, atTheClient, 'open'])
    await proxy.pass()
    await soon(() => one.ended, 'reset')
    expect(proxy.counters.resets).toBe(1)
    await connected()
  },
)

it('a hold lets what it holds go in order, or loses it with its connection', async () => {
  const [one, idle] = [await connected(), await connected()]
  const hold = proxy.holdReplies()
  one.socket.write('b')
  await hold.held
  expect([received, one.read]).toEqual(['aab', 'a'])
  hold.release()
  await soon(() => one.read, 'ab')
  const requests = proxy.holdRequests()
  one.socket.write('c')
  await requests.held
  expect(received).toBe('aab')
  requests.lose()
  await soon(() => one.ended, 'reset')
  idle.socket.write('d')
  await soon(() => idle.read, 'ad')
  expect(proxy.counters).toMatchObject({ resets: 1, requests: { held: 1, lost: 1 } })
})

it('a delay is at least as long as it says, and keeps the order', async () => {
  const one = await connected()
  const delays = [60, 0]
  proxy.delay({ requestsMs: () => delays.shift() ?? 0, repliesMs: 40 })
  const startedAt = performance.now()
  one.socket.write('b')
  await soon(() => delays.length, 1)
  one.socket.write('c')
  await soon(() => one.read, 'abc')
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(99)
})

it('resets all connections at once; refuses new ones until it passes, on the same port', async () => {
  const [one, two] = [await connected(), await connected()]
  proxy.reset()
  await soon(() => [one.ended, two.ended], ['reset', 'reset'])
  await connected()
  await proxy.refuse()
  const refused = client()
  await soon(() => refused.ended, 'refused')
  await proxy.pass()
  await connected()
})
