/**
 * Matrix row 10 on real servers: each way in which Redis itself refuses to serve is no vote, and
 * nothing crashes.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Redis } from 'ioredis'
import { Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { watchLeaks } from '../support/leaks.ts'
import { item, patientRedis } from '../support/proxied-masters.ts'

const leaks = watchLeaks()
let fleet: Fleet
let clients: readonly Redis[]

beforeAll(async () => {
  fleet = await startFleet({ masters: 5, queue: false, config: { 'busy-reply-threshold': '30' } })
  clients = fleet.urls.map((url) => patientRedis(url))
  await Promise.all(clients.map((redis) => redis.ping())) // Some tests let nobody in.
})

afterAll(async () => {
  for (const redis of clients) redis.disconnect()
  await fleet.close()
  await leaks.assertNone()
})

let runs = 0
function redlockOn(masters: readonly string[]): Redlock {
  return new Redlock({
    masters,
    namespace: `sick-${process.pid}-${++runs}`,
    // A busy machine is no sick master.
    ...{ leaseMs: 4_000, maxLeaseMs: 4_000, masterTimeoutMs: 2_000 },
    logger: silentLogger,
  })
}

/** Works while two of five masters have the fault; with three of them, nothing is granted. */
async function isNoVote(
  redlock: Redlock,
  spread: (masters: number) => Promise<unknown>,
  detail: RegExp,
): Promise<void> {
  await spread(2)
  const outcome = await redlock.tryAcquire('minority')
  expect(outcome.status).toBe('granted')
  if (outcome.status !== 'granted') return
  expect((await outcome.lease.extend()).status).toBe('extended')
  await outcome.lease.release()
  await spread(3)
  const refused = await redlock.tryAcquire('majority')
  expect(refused.status).toBe('unreachable')
  expect(JSON.stringify(refused)).toMatch(detail)
}

describe('no vote comes from a server that', () => {
  it('has become a replica', async () => {
    await using redlock = redlockOn(fleet.urls)
    await redlock.bootstrap({ newFleet: true })
    const demote = (count: number): Promise<unknown> =>
      Promise.all(clients.slice(0, count).map((redis) => redis.replicaof('127.0.0.1', 1)))
    try {
      await isNoVote(redlock, demote, /READONLY|MASTERDOWN|replica|enroll/)
    } finally {
      await Promise.all(clients.map((redis) => redis.replicaof('NO', 'ONE')))
    }
  })

  it('starts to require a password', async () => {
    await using redlock = redlockOn(fleet.urls)
    await redlock.bootstrap({ newFleet: true })
    const lock = async (count: number): Promise<void> => {
      for (const redis of clients.slice(0, count)) {
        await redis.config('SET', 'requirepass', 'secret')
        await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      }
    }
    try {
      await isNoVote(redlock, lock, /NOAUTH|connecting/)
    } finally {
      for (const redis of clients) {
        await redis.call('AUTH', 'secret').catch(() => undefined) // It never wanted one.
        await redis.config('SET', 'requirepass', '')
      }
    }
  })

  it('forgets its scripts', async () => {
    await using redlock = redlockOn(fleet.urls)
    await redlock.bootstrap({ newFleet: true })
    await Promise.all(clients.slice(0, 2).map((redis) => redis.script('FLUSH')))
    await using lease = await redlock.acquire('r')
    expect(lease.remainingMs()).toBeGreaterThan(0)
    // It is the same process with the same memory: enrolled again, it votes at once.
    await until('all vote', () => redlock.status().masters.every(({ state }) => state === 'voting'))
    expect((await lease.extend()).status).toBe('extended')
  })

  it('is busy with an endless script', async () => {
    await using redlock = redlockOn(fleet.urls)
    await redlock.bootstrap({ newFleet: true })
    const stuck = new Set<number>()
    const busy = async (count: number): Promise<void> => {
      for (let index = 0; index < count; index++) {
        if (stuck.has(index)) continue
        stuck.add(index)
        // Its own connection: what waits for the script's end waits behind it.
        const redis = new Redis(item(fleet.urls, index))
        void redis
          .eval('while true do end', 0)
          .catch(() => undefined)
          .finally(() => {
            redis.disconnect()
          })
        await until('it is busy', async () => {
          const reply = await item(clients, index)
            .get('x')
            .catch((error: unknown) => String(error))
          return String(reply).includes('BUSY')
        })
      }
    }
    try {
      await isNoVote(redlock, busy, /BUSY|timeout/)
    } finally {
      await Promise.all([...stuck].map((index) => item(clients, index).script('KILL')))
    }
  })

  it('has no connections left', async () => {
    await using redlock = redlockOn(fleet.urls)
    await redlock.bootstrap({ newFleet: true })
    const closed = async (count: number): Promise<void> => {
      for (const redis of clients.slice(0, count)) {
        await redis.config('SET', 'maxclients', '1')
        await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      }
    }
    try {
      await isNoVote(redlock, closed, /max number of clients|connecting/)
    } finally {
      await Promise.all(clients.map((redis) => redis.config('SET', 'maxclients', '1000')))
    }
  })
})
