import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openQueueConnection } from '../../src/redis/queue-connection.ts'
import { defineScript } from '../../src/redis/script.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'

const pushScript = defineScript('push', `return redis.call('RPUSH', KEYS[1], ARGV[1])`)
let server: TestServer
let other: Redis

beforeAll(async () => {
  server = await startServer()
  other = new Redis(server.url)
})

afterAll(async () => {
  other.disconnect()
  await server.close()
})

test('calls run in the order in which they are made, also while the server learns the script from somebody else', async () => {
  const { host, port } = server
  for (let round = 0; round < 5; round++) {
    await other.script('FLUSH')
    await other.del('list')
    const redis = openQueueConnection({ host, port })
    await redis.command('PING')
    const numbers = Array.from({ length: 3_000 }, (_, index) => String(index))
    const calls = numbers.map((number) => redis.run(pushScript, ['list'], [number]))
    // Comes in between, because the server reads so many calls in several pieces.
    await Promise.all([...calls, other.script('LOAD', pushScript.lua)])
    expect(await other.lrange('list', 0, -1)).toEqual(numbers)
    redis.close()
  }
})

test('a server that has forgotten its scripts is told again', async () => {
  const redis = openQueueConnection({ host: server.host, port: server.port })
  expect(await redis.run(pushScript, ['again'], ['1'])).toBe(1)
  await other.script('FLUSH')
  expect(await redis.run(pushScript, ['again'], ['2'])).toBe(2)
  redis.close()
})
