/**
 * What commands say when masters or the queue do not answer: never more than is known.
 * `test/stories/outage-table.test.ts` has every command under every outage.
 */
import { describe, expect, it } from 'vitest'
import { LockedQueue, LockedWorker } from '../../../src/index.ts'
import type { JobSince } from '../../../src/tools/operator/jobs.ts'
import { granted, until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { openRedis } from './open-redis.ts'
import { cli, type Said } from './run-cli.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 5 })
const LONG = { leaseMs: 20_000, maxLeaseMs: 20_000 }

const say = (...args: readonly string[]): Promise<Said> => cli(args, { env: fixture.env })

async function kill(count: number): Promise<void> {
  for (const master of fixture.fleet.masters.slice(0, count)) await master.kill()
}

describe('two of five masters are dead', () => {
  it('a key on two of the others may be a lease: a lease of which it may have had a vote is unknown', async () => {
    await fixture.redlock(LONG)
    await kill(2)
    for (const url of fixture.fleet.urls.slice(2, 4)) {
      await openRedis(url, fixture).set(`${fixture.namespace}:lease:r`, 'token@w', 'PX', 60_000)
    }
    const said = await say('inspect', 'r')
    expect(said.code).toBe(1)
    expect(said.out).toContain('r may be held: 2 of 5 masters have a key, and 2 do not answer')
    const taken = await say('release', 'r', '--yes')
    expect(taken).toMatchObject({ code: 0 })
    expect(taken.out).toContain('r can be acquired now')
    expect((await say('inspect', 'r')).out).toContain('r is free')
  })
})

it('a leftover on two of five masters is no lease', async () => {
  await fixture.redlock(LONG)
  for (const url of fixture.fleet.urls.slice(0, 2)) {
    await openRedis(url, fixture).set(`${fixture.namespace}:lease:r`, 'token@w', 'PX', 60_000)
  }
  const said = await say('inspect', 'r')
  expect(said.code).toBe(0)
  expect(said.out).toContain('r is free (2 of 5 masters still have a leftover key)')
})

it('masters that refuse what a lease needs: no command says that they vote', async () => {
  const queue = `q-${fixture.namespace}`
  const options = { connection: { url: fixture.fleet.queue.url }, resource: () => 'customer:1' }
  const producer = fixture.closing(new LockedQueue(queue, options))
  const redlock = await fixture.redlock(LONG)
  const job = await producer.add('job', {})
  const servers = fixture.fleet.urls.slice(0, 3).map((url) => openRedis(url, fixture))
  for (const redis of servers) await redis.config('SET', 'min-replicas-to-write', '1')
  fixture.defer(async () => {
    for (const redis of servers) await redis.config('SET', 'min-replicas-to-write', '0')
  })
  const doctor = await say('doctor')
  expect(doctor.code).toBe(3)
  expect(doctor.out).toContain('NO QUORUM: 2 of 5 masters vote')
  expect(doctor.out).toContain('refuses what a lease needs: NOREPLICAS')
  expect(doctor.out).toContain('fix: set `min-replicas-to-write 0`')
  const why = await say('why', queue, job.id ?? '')
  expect(why.out).toContain(
    'waits for a quorum of the lock masters: 2 of 5 masters vote and 3 are needed',
  )
  expect(why.out).toContain('NOREPLICAS')
  const inspected = await say('inspect', 'customer:1')
  expect(inspected.out).toContain('No lease is granted: 2 of 5 masters vote')
  expect((await redlock.tryAcquire('customer:1')).status).toBe('unreachable')
  const worker = new LockedWorker(queue, () => Promise.resolve(), {
    ...{ ...options, redlock, autorun: false },
  })
  fixture.defer(() => worker.close())
  await until('the library says so', async () => {
    const { line } = await worker.inspect('customer:1')
    return line[0]?.waitsFor.includes('NOREPLICAS') === true
  })
})

describe('slots', () => {
  it('`inspect` and `release` of the resource show who holds which; one slot can be released', async () => {
    const first = await fixture.redlock({ ...LONG, owner: 'worker-1' })
    const second = await fixture.redlock({ ...LONG, owner: 'worker-2' })
    const a = await granted(first, 'gpu', { slots: 4 })
    const b = await granted(second, 'gpu', { slots: 4 })
    const [slotA = '', slotB = ''] = [...a.resources, ...b.resources]
    const inspected = await say('inspect', 'gpu')
    expect(inspected.code).toBe(0)
    expect(inspected.out).toContain('gpu has slots: 2 are held')
    expect(inspected.out).toMatch(new RegExp(`${slotA} +held +worker-1 .*${a.fencingToken}`))
    expect(inspected.out).toMatch(new RegExp(`${slotB} +held +worker-2 `))
    expect(inspected.out).not.toContain('gpu is free')
    const whole = await say('release', 'gpu', '--yes')
    expect(whole.code).toBe(1)
    expect(whole.out).toMatch(
      /nothing was changed: name one slot, such as `bullmq-redlock release gpu#\d`/,
    )
    expect(whole.out).toContain('worker-2')
    const one = await say('release', slotA, '--yes')
    expect(one).toMatchObject({ code: 0 })
    const left = await say('inspect', 'gpu')
    expect(left.out).toContain('gpu has slots: 1 is held')
  })
})

describe('the job under a lease', () => {
  it('`leases` shows it with the time of its start; without the queue, that it is not shown', async () => {
    const queue = `q-${fixture.namespace}`
    const connection = { url: fixture.fleet.queue.url }
    const resource = ({ customer }: { customer: number }): string => `customer:${customer}`
    const locked = new LockedQueue<{ customer: number }>(queue, { connection, resource })
    fixture.defer(() => locked.close())
    const redlock = await fixture.redlock(LONG)
    await granted(redlock, 'other')
    const { passed } = fixture.gate()
    const worker = new LockedWorker<{ customer: number }>(queue, () => passed, {
      ...{ connection, redlock },
      resource: ({ data }) => resource(data),
    })
    fixture.defer(() => worker.close())
    const before = Date.now()
    const job = await locked.add('post', { customer: 42 })
    await until('it runs', () => job.isActive())
    const said = await say('leases', '--json')
    const { leases } = said.json<{ leases: readonly { resource: string; job?: JobSince }[] }>()
    expect(leases).toMatchObject([
      { resource: 'customer:42', job: { queue, jobId: job.id } },
      { resource: 'other' },
    ])
    expect(leases[0]?.job?.since).toBeGreaterThanOrEqual(before)
    expect(leases[1]?.job).toBeUndefined()
    const people = await say('leases')
    expect(people.out).toMatch(
      new RegExp(`customer:42 +held .* ${queue} ${job.id ?? ''} +20\\d\\d-`),
    )
    const away = ['leases', '--queue-redis', 'redis://127.0.0.1:1']
    const alone = await say(...away)
    expect(alone.code).toBe(0)
    expect(alone.out).toMatch(/customer:42 +held/)
    expect(alone.err).toContain("Jobs are not shown: the queue's Redis 127.0.0.1:1 does not answer")
  })
})

it('a restarted master may have forgotten a lease: `inspect` does not call it free', async () => {
  const redlock = await fixture.redlock(LONG)
  const [first, second, third, ...others] = fixture.fleet.urls.map((url) => openRedis(url, fixture))
  for (const redis of [first, second]) {
    await redis?.set(`${fixture.namespace}:lease:r`, 'token@w', 'PX', 60_000)
  }
  expect((await say('inspect', 'r')).out).toContain('r is free (2 of 5 masters still have')
  expect((await say('leases')).out).toContain('1 lease: 1 leftover')
  expect(await redlock.inspect('r')).not.toHaveProperty('unknown')
  await third?.hset(`${fixture.namespace}:master`, 'runId', 'of the process before')
  const said = await say('inspect', 'r')
  expect(said.out).toContain(
    'r may be held: 2 of 5 masters have a key, and 1 is new or restarted, and may have forgotten',
  )
  expect(said.code).toBe(1)
  expect((await say('leases')).out).toContain('1 lease: 1 unknown')
  const forgot = 'of 5 masters, 1 is new or restarted, and may have forgotten a key'
  await until('its client says so', async () => (await redlock.inspect('r')).unknown === forgot)
  expect(others).toHaveLength(2)
})

it('a master whose user may not scan is not said to be silent', async () => {
  const [url = ''] = fixture.fleet.urls
  const redis = openRedis(url, fixture)
  await redis.acl('SETUSER', 'clerk', 'on', '>secret', '~*', '&*', '+@all', '-scan')
  fixture.defer(() => redis.acl('DELUSER', 'clerk'))
  const master = url.replace('://', '://clerk:secret@')
  const said = await cli(['leases', '--master', master], { env: {} })
  expect(said.code).toBe(3)
  expect(said.out).toMatch(/^The holders are not known: \S+ refuses what is asked/)
  expect(said.err).toMatch(/^\S+ refuses what is asked: NOPERM /)
})
