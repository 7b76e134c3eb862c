import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Fleet, startFleet, startServer, type TestServer } from '../../src/testing/index.ts'
import { DIRECTORY_PREFIX } from '../../src/testing/reaper.ts'
import { assertNoLeaks, watchLeaks } from '../support/leaks.ts'
import { ask, ping } from '../support/ask.ts'
import { serverCases } from './server-cases.ts'

assertNoLeaks()

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
  serverCases()
})

it('leaves no directory of a server that was closed', () => {
  expect(ownDirectories()).toEqual([])
})

it('a server keeps its port and its directory out of reach of the directives', async () => {
  await expect(startServer({ config: { port: '6379' } })).rejects.toThrow(TypeError)
  await expect(startServer({ config: { save: '1 1\nport 6379' } })).rejects.toThrow(TypeError)
})
