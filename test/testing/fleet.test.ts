import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Fleet, startFleet, startServer, type TestServer } from '../../src/testing/index.ts'
import { DIRECTORY_PREFIX } from '../../src/testing/reaper.ts'
import { watchLeaks } from '../support/leaks.ts'
import { ask, ping } from './ask.ts'

const leaks = watchLeaks()

afterAll(() => leaks.assertNone())

function ownDirectories(): readonly string[] {
  const prefix = `${DIRECTORY_PREFIX}${process.pid}-`
  return readdirSync(tmpdir()).filter((name) => name.startsWith(prefix))
}

describe('a fleet', () => {
  let fleet: Fleet

  beforeAll(async () => {
    fleet = await startFleet({ config: { 'maxmemory-policy': 'volatile-lru' } })
  })

  afterAll(() => fleet.close())

  it('has five masters and a queue, each on its own port and none on 6379', async () => {
    const servers = [...fleet.masters, fleet.queue]
    const ports = new Set(servers.map((server) => server.port))
    expect(servers.map((server) => server.name)).toEqual([
      'master-1',
      'master-2',
      'master-3',
      'master-4',
      'master-5',
      'queue',
    ])
    expect(ports.size).toBe(6)
    expect(ports).not.toContain(6379)
    expect(fleet.urls).toEqual(fleet.masters.map((master) => master.url))
    expect(await Promise.all(servers.map((server) => ping(server.url)))).toEqual(
      servers.map(() => 'PONG'),
    )
  })

  it('gives the masters the directives of the caller, and the queue the defaults', async () => {
    const policy = (server: TestServer): Promise<unknown> =>
      ask(server.url, (redis) => redis.config('GET', 'maxmemory-policy'))
    expect(await Promise.all(fleet.masters.map(policy))).toEqual(
      fleet.masters.map(() => ['maxmemory-policy', 'volatile-lru']),
    )
    expect(await policy(fleet.queue)).toEqual(['maxmemory-policy', 'noeviction'])
    expect(await ask(fleet.queue.url, (redis) => redis.config('GET', 'save'))).toEqual(['save', ''])
  })
})

it('starts without a queue, which cannot be read then', async () => {
  await using fleet = await startFleet({ masters: 1, queue: false })
  expect(fleet.masters).toHaveLength(1)
  expect(() => fleet.queue).toThrow('queue: false')
})

it('refuses a size that is not a positive integer', async () => {
  await expect(startFleet({ masters: 1.5 })).rejects.toThrow(
    new TypeError('Expected `masters` to be an integer >= 0, got `1.5`'),
  )
})

it('leaves no server and no directory when one of the fleet does not start', async () => {
  const own = watchLeaks()
  const start = startFleet({ masters: 2, config: { maxmemory: 'plenty' } })
  await expect(start).rejects.toThrow(/did not start on port \d+: it ended[^]*maxmemory/)
  expect(ownDirectories()).toEqual([])
  await own.assertNone()
})

describe('a server', () => {
  let server: TestServer

  afterEach(() => server.close())

  const write = (): Promise<unknown> => ask(server.url, (redis) => redis.set('key', 'value'))
  const read = (): Promise<unknown> => ask(server.url, (redis) => redis.get('key'))

  it('is gone when killed, and comes back empty on its port', async () => {
    server = await startServer()
    const { port } = server
    await write()
    await server.kill()
    expect(server.running).toBe(false)
    await expect(ping(server.url)).rejects.toThrow()
    await server.restart()
    expect(server.running).toBe(true)
    expect(server.port).toBe(port)
    expect(await read()).toBeNull()
  })

  it('comes back with what it had written to disk', async () => {
    server = await startServer({ config: { appendonly: 'yes', appendfsync: 'always' } })
    await write()
    await server.kill()
    await server.restart()
    expect(await read()).toBe('value')
    await server.restart({ keepData: false })
    expect(await read()).toBeNull()
  })

  it('restarts while it runs, with further directives that stay', async () => {
    server = await startServer()
    await server.restart({ config: { appendonly: 'yes', appendfsync: 'always' } })
    await write()
    await server.restart()
    expect(await read()).toBe('value')
  })

  it('answers nothing while frozen, and everything once thawed', async () => {
    server = await startServer()
    await using other = await startServer({ name: 'other' })
    await ask(server.url, async (redis) => {
      const answered: string[] = []
      await server.freeze()
      const late = redis.ping().then(() => answered.push('frozen'))
      // Many round trips of a server that is not frozen.
      for (let round = 0; round < 50; round += 1) await ping(other.url)
      answered.push('other')
      await server.thaw()
      await late
      expect(answered).toEqual(['other', 'frozen'])
    })
  })

  it('is closed while frozen, twice, and does not come back', async () => {
    server = await startServer()
    await server.freeze()
    expect(server.running).toBe(true)
    await server.close()
    await server.close()
    expect(server.running).toBe(false)
    await expect(server.restart()).rejects.toThrow('closed')
    await expect(server.freeze()).rejects.toThrow('not running')
    expect(ownDirectories()).toEqual([])
  })

  it('asks for the password of its configuration, which is in its URL', async () => {
    server = await startServer({ config: { requirepass: 'open/sesame' } })
    expect(await ping(server.url)).toBe('PONG')
    await expect(ping(`redis://${server.host}:${server.port}`)).rejects.toThrow()
  })

  it('keeps its port and its directory out of reach of the directives', async () => {
    await expect(startServer({ config: { port: '6379' } })).rejects.toThrow(TypeError)
    await expect(startServer({ config: { save: '1 1\nport 6379' } })).rejects.toThrow(TypeError)
  })
})
