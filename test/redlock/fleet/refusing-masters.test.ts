/**
 * Masters that answer, and refuse what a lease needs: a denied command, a missing replica, a full
 * memory, a disk that fails. None of them grants, so none of them may be said to vote.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../../src/clock.ts'
import { LOOK_MS } from '../../../src/redlock/fleet/fleet.ts'
import { MasterRefusedError, Redlock, type MasterStatus } from '../../../src/index.ts'
import type { TestServer } from '../../../src/testing/index.ts'
import { granted, isGranted, MAX_LEASE_MS, until, useFleet } from '../../fixtures.ts'

const fixture = useFleet({ masters: 3, queue: false })

test('of a master that is there alone, nothing is said about its clock', async () => {
  const { masters } = fixture.fleet
  await (await fixture.redlock()).close()
  for (const master of masters.slice(1)) {
    await master.freeze()
    fixture.defer(() => master.thaw())
  }
  const { namespace, fleet } = fixture
  const redlock = new Redlock({ masters: fleet.urls, namespace, maxLeaseMs: MAX_LEASE_MS })
  fixture.defer(() => redlock.close())
  await until('it is enrolled', () => redlock.status().masters[0]?.clockOffsetMs !== undefined)
  expect(redlock.status().masters.map(({ state }) => state)).toEqual([
    'voting',
    'connecting',
    'connecting',
  ])
  expect((await redlock.tryAcquire('r')).status).not.toBe('granted')
})

interface Sickness {
  /** Makes the server refuse. */
  readonly fall: (redis: Redis) => Promise<unknown>
  readonly heal: (redis: Redis) => Promise<unknown>
  /** It grants, and refuses what comes later. */
  readonly grants?: true
  /** Of the reason. */
  readonly says: RegExp
}

const ADMIN = { username: 'admin', password: 'pw' }

function denied(...rights: readonly string[]): Sickness {
  return {
    fall: (redis) => redis.acl('SETUSER', 'default', ...rights),
    heal: (redis) => redis.acl('SETUSER', 'default', 'resetkeys', '~*', '+@all'),
    says: /refuses what a lease needs: .*permission|can't (run|access).*; give its user/,
  }
}

async function snapshotPath(redis: Redis): Promise<string> {
  const [, dir = ''] = await redis.config('GET', 'dir')
  return join(dir, 'dump.rdb')
}

const SICKNESSES: Readonly<Record<string, Sickness>> = {
  'EVALSHA is denied': denied('-evalsha'),
  'scripts are denied': denied('-@scripting'),
  'SET is denied': denied('-set'),
  'DEL is denied': { ...denied('-del'), grants: true },
  'PEXPIRE is denied': { ...denied('-pexpire'), grants: true },
  'all writes are denied': denied('-@write'),
  'the counters are denied': denied('resetkeys', '~*:lease:*', '~*:flag', '~*:master', '~*:wait:*'),
  'the leases may only be read': denied('resetkeys', '%R~*', '~*:fence:*', '~*:master'),
  'its replicas are missing': {
    fall: (redis) => redis.config('SET', 'min-replicas-to-write', '1'),
    heal: (redis) => redis.config('SET', 'min-replicas-to-write', '0'),
    says: /refuses what a lease needs: NOREPLICAS .*; set `min-replicas-to-write 0`/,
  },
  'its memory is full': {
    fall: (redis) => redis.config('SET', 'maxmemory', '1'),
    heal: (redis) => redis.config('SET', 'maxmemory', '0'),
    says: /refuses what a lease needs: OOM .*; raise its `maxmemory`/,
  },
  'its snapshots fail': {
    fall: async (redis) => {
      // No file takes the place of a directory.
      await mkdir(await snapshotPath(redis), { recursive: true })
      await redis.config('SET', 'save', '3600 1')
      await redis.bgsave()
      await until('it has failed', async () =>
        (await redis.info('persistence')).includes('rdb_last_bgsave_status:err'),
      )
    },
    heal: async (redis) => {
      await rm(await snapshotPath(redis), { recursive: true, force: true })
      await redis.config('SET', 'save', '')
    },
    says: /refuses what a lease needs: MISCONF .*; read its log and free disk space/,
  },
}

/** As a user whose rights stay. */
async function admins(servers: readonly TestServer[]): Promise<readonly Redis[]> {
  return Promise.all(
    servers.map(async ({ url }) => {
      const first = new Redis(url)
      await first.acl('SETUSER', ADMIN.username, 'on', `>${ADMIN.password}`, '~*', '&*', '+@all')
      first.disconnect()
      const redis = new Redis(url, ADMIN)
      fixture.defer(() => {
        redis.disconnect()
      })
      return redis
    }),
  )
}

const refusedBy = (redlock: Redlock): readonly MasterStatus[] =>
  redlock.status().masters.filter(({ state }) => state === 'refused')

/** What a client knows with it, an answer has told it. */
const WITHOUT_LOOKS: Clock = {
  ...systemClock,
  after: (ms, run) => systemClock.after(ms === LOOK_MS ? 1e9 : ms, run),
}

describe('two of three: a client knows it from the first refusal until it is over', () => {
  const cases = Object.entries(SICKNESSES).filter(([, { grants }]) => grants !== true)
  test.each(cases)('%s', async (_what, { fall, heal, says }) => {
    const sick = await admins(fixture.fleet.masters.slice(1))
    fixture.defer(() => Promise.all(sick.map(heal)))
    const redlock = await fixture.redlock({ clock: WITHOUT_LOOKS })
    expect(await isGranted(redlock, 'r')).toBe(true)
    await Promise.all(sick.map(fall))
    expect(await isGranted(redlock, 'r')).toBe(false)
    await until('it says so', () => refusedBy(redlock).length === 2)
    for (const { reason } of refusedBy(redlock)) expect(reason).toMatch(says)
    expect(redlock.status().masters[0]).toMatchObject({ state: 'voting' })
    await expect(redlock.ready()).rejects.toThrow(MasterRefusedError)
    const inspection = await redlock.inspect('r').catch(() => undefined)
    if (inspection !== undefined)
      expect(inspection.ungranted).toMatch(/^1 of 3 masters vote.*refuses((?!\.\.).)*[^.]$/)

    await Promise.all(sick.map(heal))
    // Counted at once, without a look: who excludes a master goes on asking it.
    await until('it is granted again', () => isGranted(redlock, 'r'))
    await until('they are said to vote', () => refusedBy(redlock).length === 0)
    await redlock.ready()
    expect((await redlock.inspect('r')).ungranted).toBeUndefined()
  })
})

test('one of three: the others grant, and a new client says which it is', async () => {
  const [sick] = await admins(fixture.fleet.masters.slice(2))
  if (sick === undefined) throw new Error('there is no third master')
  const first = await fixture.redlock()
  const clients: Redlock[] = []
  for (const { fall, heal, says } of Object.values(SICKNESSES)) {
    fixture.defer(() => heal(sick))
    await fall(sick)
    const redlock = await fixture.redlock()
    expect(refusedBy(redlock)).toEqual([
      expect.objectContaining({ name: new URL(fixture.fleet.urls[2] ?? '').host }),
    ])
    expect(refusedBy(redlock)[0]?.reason).toMatch(says)
    await (await granted(redlock, 'r')).release()
    await heal(sick)
    clients.push(redlock)
  }
  for (const redlock of [first, ...clients]) {
    await until('it is said to vote', () => refusedBy(redlock).length === 0)
  }
})

describe('an idle client notices by itself, and when it is over', () => {
  const notices = async (redlock: Redlock, state: MasterStatus['state']): Promise<void> => {
    await until(`two masters are ${state}`, () => {
      const states = redlock.status().masters.map((one) => one.state)
      return states.join() === ['voting', state, state].join()
    })
  }

  const refuse = async (): Promise<void> => {
    const sick = await admins(fixture.fleet.masters.slice(1))
    const fall = (redis: Redis) => redis.config('SET', 'maxmemory', '1')
    const heal = (redis: Redis) => redis.config('SET', 'maxmemory', '0')
    fixture.defer(() => Promise.all(sick.map(heal)))
    const redlock = await fixture.redlock()
    await Promise.all(sick.map(fall))
    await notices(redlock, 'refused')
    await Promise.all(sick.map(heal))
    await notices(redlock, 'voting')
  }

  const hang = async (): Promise<void> => {
    const redlock = await fixture.redlock()
    const sick = fixture.fleet.masters.slice(1)
    await Promise.all(sick.map((master) => master.freeze()))
    await notices(redlock, 'connecting')
    await Promise.all(sick.map((master) => master.thaw()))
    await notices(redlock, 'voting')
  }

  const loseData = async (): Promise<void> => {
    const sick = await admins(fixture.fleet.masters.slice(1))
    const redlock = await fixture.redlock()
    await Promise.all(sick.map((redis) => redis.flushall()))
    await notices(redlock, 'quarantined')
    await notices(redlock, 'voting')
  }

  const CHANGES: Readonly<Record<string, () => Promise<void>>> = {
    'masters that refuse': refuse,
    'masters that hang': hang,
    'masters that lost their data': loseData,
  }
  const changes = Object.keys(CHANGES)
  test.each(changes)(
    '%s',
    fixture.together(changes, async (change) => CHANGES[change]?.()),
  )
})

test('what one key makes a master refuse is told of no other', async () => {
  const redlock = await fixture.redlock()
  const servers = await admins(fixture.fleet.masters)
  await Promise.all(servers.map((redis) => redis.lpush(`${fixture.namespace}:lease:odd`, 'x')))
  const outcome = await redlock.tryAcquire('odd')
  expect(JSON.stringify(outcome)).toContain('WRONGTYPE')
  expect(await isGranted(redlock, 'r')).toBe(true)
  expect(refusedBy(redlock)).toEqual([])
})

test('a trial leaves nothing, and touches no lease', async () => {
  const redlock = await fixture.redlock()
  const [redis] = await admins(fixture.fleet.masters.slice(0, 1))
  await using lease = await granted(redlock, 'trial')
  const before = await redis?.keys(`${fixture.namespace}:*`)
  const other = await fixture.redlock()
  await other.ready()
  expect((await redis?.keys(`${fixture.namespace}:*`))?.sort()).toEqual(before?.sort())
  expect(await lease.extend()).toMatchObject({ status: 'extended' })
})
