/** What a server does that tests start, as a process and in a container. */
import { afterEach, expect, it } from 'vitest'
import { startServer, type ServerOptions, type TestServer } from '../../src/testing/index.ts'
import { ask, ping } from '../support/ask.ts'

export function serverCases(options: ServerOptions = {}): void {
  let server: TestServer

  afterEach(() => server.close())

  const write = (): Promise<unknown> => ask(server.url, (redis) => redis.set('key', 'value'))
  const read = (): Promise<unknown> => ask(server.url, (redis) => redis.get('key'))

  it('is gone when killed, and comes back empty on its port', async () => {
    server = await startServer(options)
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
    server = await startServer({ ...options, config: { appendonly: 'yes', appendfsync: 'always' } })
    await write()
    await server.kill()
    await server.restart()
    expect(await read()).toBe('value')
    await server.restart({ keepData: false })
    expect(await read()).toBeNull()
  })

  it('restarts while it runs, with further directives that stay', async () => {
    server = await startServer(options)
    await server.restart({ config: { appendonly: 'yes', appendfsync: 'always' } })
    await write()
    await server.restart()
    expect(await read()).toBe('value')
  })

  it('answers nothing while frozen, and everything once thawed', async () => {
    server = await startServer(options)
    await using other = await startServer({ ...options, name: 'other' })
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
    server = await startServer(options)
    await server.freeze()
    expect(server.running).toBe(true)
    await server.close()
    await server.close()
    expect(server.running).toBe(false)
    await expect(server.restart()).rejects.toThrow('closed')
    await expect(server.freeze()).rejects.toThrow('not running')
  })

  it('asks for the password of its configuration, which is in its URL', async () => {
    server = await startServer({ ...options, config: { requirepass: 'open/sesame' } })
    expect(await ping(server.url)).toBe('PONG')
    await expect(ping(`redis://${server.host}:${server.port}`)).rejects.toThrow()
  })
}
