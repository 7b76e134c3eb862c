/**
 * Matrix row 10 on real servers: each way in which Redis itself refuses to serve is no vote, and
 * nothing crashes.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Redis } from 'ioredis'
import { Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { item, patientRedis } from '../support/proxied-masters.ts'

assertNoLeaks()
let fleet: Fleet
let clients: readonly Redis[]

beforeAll(async () => {
  fleet = await startFleet({ masters: 5, queue: false, config: { 'busy-reply-threshold': '30' } })
  clients = fleet.urls.map((url) => patientRedis(url))
  await Promise.all(clients.map((redis) => redis.ping())) // Some sicknesses let nobody in.
})

afterAll(async () => {
  for (const redis of clients) redis.disconnect()
  await fleet.close()
})

interface Sickness {
  readonly fall: (redis: Redis, url: string) => Promise<unknown>
  readonly heal: (redis: Redis) => Promise<unknown>
  /** Why there is no vote. */
  readonly says: RegExp
}

const disconnectAll = (redis: Redis): Promise<unknown> =>
  redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')

const SICKNESSES: Readonly<Record<string, Sickness>> = {
  'has become a replica': {
    fall: (redis) => redis.replicaof('127.0.0.1', 1),
    heal: (redis) => redis.replicaof('NO', 'ONE'),
    says: /READONLY|MASTERDOWN|replica|enroll/,
  },
  'starts to require a password': {
    fall: async (redis) => {
      await redis.config('SET', 'requirepass', 'secret')
      await disconnectAll(redis)
    },
    heal: async (redis) => {
      await redis.call('AUTH', 'secret')
      await redis.config('SET', 'requirepass', '')
    },
    says: /NOAUTH|connecting/,
  },
  'is busy with an endless script': {
    fall: async (redis, url) => {
      // Its own connection: what waits for the script's end waits behind it.
      const stuck = new Redis(url)
      void stuck
        .eval('while true do end', 0)
        .catch(() => undefined)
        .finally(() => {
          stuck.disconnect()
        })
      await until('it is busy', async () => {
        const reply = await redis.get('x').catch((error: unknown) => String(error))
        return String(reply).includes('BUSY')
      })
    },
    heal: (redis) => redis.script('KILL'),
    says: /BUSY|timeout/,
  },
  'has no connections left': {
    fall: async (redis) => {
      await redis.config('SET', 'maxclients', '1')
      await disconnectAll(redis)
    },
    heal: (redis) => redis.config('SET', 'maxclients', '1000'),
    says: /max number of clients|connecting/,
  },
}

it.each(Object.entries(SICKNESSES))(
  'no vote comes from a server that %s: two of five do no harm, with three nothing is granted',
  async (name, { fall, heal, says }) => {
    await using redlock = new Redlock({
      ...{ masters: fleet.urls, namespace: name, logger: silentLogger },
      // A busy machine is no sick master.
      ...{ leaseMs: 4_000, maxLeaseMs: 4_000, masterTimeoutMs: 2_000 },
    })
    await redlock.bootstrap({ newFleet: true })
    const sick: Redis[] = []
    const fallSick = async (index: number): Promise<void> => {
      const redis = item(clients, index)
      sick.push(redis)
      await fall(redis, item(fleet.urls, index))
    }
    try {
      for (const index of [0, 1]) await fallSick(index)
      const outcome = await redlock.tryAcquire('minority')
      if (outcome.status !== 'granted') throw new Error(JSON.stringify(outcome))
      expect((await outcome.lease.extend()).status).toBe('extended')
      await outcome.lease.release()
      await fallSick(2)
      const refused = await redlock.tryAcquire('majority')
      expect(refused.status).toBe('unreachable')
      expect(JSON.stringify(refused)).toMatch(says)
    } finally {
      await Promise.all(sick.map(heal))
    }
  },
)
