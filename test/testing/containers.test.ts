import { afterEach, describe, expect, it } from 'vitest'
import { engineProblem } from '../../src/testing/container-server.ts'
import { startFleet, startServer, type TestServer } from '../../src/testing/index.ts'
import { ask, ping } from './ask.ts'

const START_LIMIT_MS = 120_000

/** Why this machine cannot run the tests below, if it cannot. */
async function findObstacle(): Promise<string | undefined> {
  const problem = await engineProblem()
  if (problem !== undefined) return problem
  try {
    await (await startServer({ backend: 'containers' })).close()
    return undefined
  } catch (error) {
    const message = (error as Error).message
    // An engine without network says nothing about this code.
    if (/pull|registry|no such image/i.test(message)) return message
    throw error
  }
}

const obstacle = await findObstacle()
if (obstacle !== undefined) console.warn(`No test of containers: ${obstacle}`)

describe.skipIf(obstacle !== undefined)('a server in a container', () => {
  let server: TestServer

  afterEach(() => server.close())

  const write = (): Promise<unknown> => ask(server.url, (redis) => redis.set('key', 'value'))
  const read = (): Promise<unknown> => ask(server.url, (redis) => redis.get('key'))

  it('is gone when killed, and comes back empty on its port', async () => {
    server = await startServer({ backend: 'containers' })
    const { port } = server
    expect(port).not.toBe(6379)
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
    const config = { appendonly: 'yes', appendfsync: 'always' }
    server = await startServer({ backend: 'containers', config })
    await write()
    await server.kill()
    await server.restart()
    expect(await read()).toBe('value')
    await server.restart({ keepData: false })
    expect(await read()).toBeNull()
  })

  it('answers nothing while frozen, and everything once thawed', async () => {
    server = await startServer({ backend: 'containers' })
    await using other = await startServer({ backend: 'containers', name: 'other' })
    await ask(server.url, async (redis) => {
      const answered: string[] = []
      await server.freeze()
      const late = redis.ping().then(() => answered.push('frozen'))
      for (let round = 0; round < 50; round += 1) await ping(other.url)
      answered.push('other')
      await server.thaw()
      await late
      expect(answered).toEqual(['other', 'frozen'])
    })
  })

  it('is closed while frozen, twice, and does not come back', async () => {
    server = await startServer({ backend: 'containers' })
    await server.freeze()
    expect(server.running).toBe(true)
    await server.close()
    await server.close()
    expect(server.running).toBe(false)
    await expect(server.restart()).rejects.toThrow('closed')
    await expect(server.freeze()).rejects.toThrow('not running')
  })

  it('restarts with further directives, the password too', async () => {
    server = await startServer({ backend: 'containers' })
    await server.restart({ config: { requirepass: 'open/sesame' } })
    expect(await ping(server.url)).toBe('PONG')
    await expect(ping(`redis://${server.host}:${server.port}`)).rejects.toThrow()
  })
})

describe.skipIf(obstacle !== undefined)('a fleet of containers', () => {
  it(
    'has five masters and a queue, and ends with all of them',
    async () => {
      await using fleet = await startFleet({ backend: 'containers' })
      const servers = [...fleet.masters, fleet.queue]
      expect(new Set(servers.map(({ port }) => port)).size).toBe(6)
      expect(await Promise.all(servers.map(({ url }) => ping(url)))).toEqual(
        servers.map(() => 'PONG'),
      )
      await fleet.close()
      for (const { url } of servers) await expect(ping(url)).rejects.toThrow()
    },
    START_LIMIT_MS,
  )
})
