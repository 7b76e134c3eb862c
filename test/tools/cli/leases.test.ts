/** What operators see of leases, and how they take one away. */
import { describe, expect, it } from 'vitest'
import { openRedis } from './open-redis.ts'
import { LeaseLostError } from '../../../src/index.ts'
import { FleetProbe } from '../../../src/tools/operator/fleet-probe.ts'
import {
  liveLeases,
  mergeLeases,
  type LiveLeases,
} from '../../../src/tools/operator/live-leases.ts'
import type { ForcedRelease } from '../../../src/tools/operator/resource-view.ts'
import { granted, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { cli, type Said } from './run-cli.ts'
import { fleetEnv } from '../../support/fleet-env.ts'

assertNoLeaks()
const fixture = useFleet({ queue: false })

/** Starting a process takes a while; no lease may end meanwhile. */
const LONG = { leaseMs: 20_000, maxLeaseMs: 20_000 }

const env = (): NodeJS.ProcessEnv => fleetEnv(fixture.fleet.urls, fixture.namespace)
const say = (...args: readonly string[]): Promise<Said> => cli(args, { env: env() })
const url = (index: number): string => fixture.fleet.urls[index] ?? ''

describe('leases', () => {
  it('shows holder, fencing token, time left and votes, and separates leftovers', async () => {
    const redlock = await fixture.redlock({ ...LONG, owner: 'worker-7' })
    const lease = await granted(redlock, 'customer:42')
    await granted(redlock, 'gpu')
    const redis = openRedis(url(0), fixture)
    await redis.set(`${fixture.namespace}:lease:customer:43`, 'dead@worker-1', 'PX', 60_000)

    const said = await say('leases', '--json', '--match', 'customer:*')
    expect(said.code).toBe(0)
    const found = said.json<LiveLeases>()
    expect(found).toMatchObject({ quorum: 3, masters: 5, unreachable: [], truncated: false })
    expect(found.leases).toMatchObject([
      {
        ...{ resource: 'customer:42', state: 'held', votes: 5 },
        fencingToken: lease.fencingToken,
      },
      { resource: 'customer:43', state: 'leftover', votes: 1 },
    ])
    expect(found.leases[0]?.holder).toContain('worker-7')
    expect(said.out).not.toContain(lease.token)
    expect(found.leases[0]?.freeInMs).toBeGreaterThan(0)

    const people = await say('leases')
    expect(people.out).toMatch(/customer:42 +held +worker-7/)
    expect(people.out).toContain('3 leases: 2 held, 1 leftover')
  })

  it('a limit, and that there are more', async () => {
    const redlock = await fixture.redlock(LONG)
    for (let index = 0; index < 5; index++) await granted(redlock, `r:${index}`)
    const found = (await say('leases', '--json', '--limit', '2')).json<LiveLeases>()
    expect(found.leases.map(({ resource }) => resource)).toHaveLength(2)
    expect(found.leases.every(({ votes }) => votes === 5)).toBe(true)
    expect(found.truncated).toBe(true)
  })

  it('with masters away it says what is unknown; below a quorum it exits with 3', async () => {
    const redlock = await fixture.redlock(LONG)
    await granted(redlock, 'customer:42')
    const redis = openRedis(url(4), fixture)
    await redis.set(`${fixture.namespace}:lease:half`, 'dead@worker-1', 'PX', 60_000)
    await fixture.fleet.masters[0]?.kill()
    await fixture.fleet.masters[1]?.kill()
    const two = await say('leases', '--json')
    expect(two.code).toBe(0)
    expect(two.err).toContain('"event":"unreachable"')
    expect(two.json<LiveLeases>().leases).toMatchObject([
      { resource: 'customer:42', state: 'held', votes: 3 },
      { resource: 'half', state: 'unknown', votes: 1 },
    ])
    const [, , frozen] = fixture.fleet.masters
    fixture.defer(async () => frozen?.thaw())
    await frozen?.freeze()
    const three = await say('leases', '--timeout-ms', '300')
    expect(three.code).toBe(3)
    expect(three.err).toContain('does not answer: no reply within 300 ms')
  })

  it('a scan reads at most the keys that its limit allows', async () => {
    const redis = openRedis(url(0), fixture)
    const names = Array.from({ length: 5_000 }, (_, index) => `${fixture.namespace}:lease:${index}`)
    await redis.mset(names.flatMap((name) => [name, 'token@owner']))
    const masters = [url(0)]
    const fleet = new FleetProbe({ masters, namespace: fixture.namespace, timeoutMs: 1_000 })
    const bounded = await liveLeases(fleet, { limit: 100_000, maxScanned: 2_000 })
    expect(bounded.truncated).toBe(true)
    expect(bounded.leases.length).toBeLessThan(5_000)
    const all = await liveLeases(fleet, { limit: 100_000 })
    expect(all).toMatchObject({ truncated: false })
    expect(all.leases).toHaveLength(5_000)
    fleet.close()
    await redis.unlink(...names)
  })

  it('two holders of halves are two leases (pure)', () => {
    const view = (token: string) => [{ resource: 'r', token, ttlMs: 10, counter: 7 }]
    const answers = ['a@x', 'a@x', 'b@y', 'b@y', 'a@x'].map((token, index) => ({
      ...{ master: String(index), ok: true as const, value: view(token) },
    }))
    expect(mergeLeases(answers, 3)).toMatchObject([
      { state: 'held', votes: 3, fencingToken: 7 },
      { state: 'leftover', votes: 2, fencingToken: undefined },
    ])
  })
})

describe('names that steer a terminal', () => {
  it('are shown as text', async () => {
    const redlock = await fixture.redlock({ ...LONG, owner: 'evil\u001b[2J' })
    await granted(redlock, 'a\u001b]0;title\u0007\nb')
    const said = await say('leases')
    expect(said.out).toContain('a\\x1b]0;title\\x07\\x0ab')
    // eslint-disable-next-line no-control-regex -- these are what must not come through
    expect(said.out).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/)
  })
})

describe('inspect', () => {
  it("shows the holder and each master's answer, also of a fleet that a Redlock refuses", async () => {
    const redlock = await fixture.redlock({ ...LONG, owner: 'worker-7' })
    const lease = await granted(redlock, 'customer:42')
    const redis = openRedis(url(1), fixture)
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
    await fixture.fleet.masters[0]?.kill()
    const said = await say('inspect', 'customer:42')
    await redis.config('SET', 'maxmemory-policy', 'noeviction')
    expect(said.code).toBe(0)
    expect(said.out).toMatch(
      /customer:42 is held by worker-7 \(\w+…\) for another .* with fencing token/,
    )
    expect(said.out).toContain(String(lease.fencingToken))
    expect(said.out).toContain('does not answer: connect ECONNREFUSED')
    expect((await say('inspect', 'free')).out).toContain('free is free')
  })
})

describe('release', () => {
  it('refuses without --yes where there is no terminal, and changes nothing', async () => {
    const redlock = await fixture.redlock(LONG)
    const lease = await granted(redlock, 'customer:42')
    const said = await say('release', 'customer:42')
    expect(said.code).toBe(2)
    expect(said.err).toContain('A holder keeps running and is not notified')
    expect(said.err).toContain('Not a terminal. Re-run with --yes to confirm.')
    await lease.extend()
    expect(lease.signal.aborted).toBe(false)
  })

  it('takes the resource on every master; the holder loses it at its next extension; the next one may have it', async () => {
    const redlock = await fixture.redlock({ ...LONG, owner: 'worker-7' })
    const lease = await granted(redlock, 'customer:42')
    await fixture.fleet.masters[0]?.kill()
    const said = await say('release', 'customer:42', '--yes', '--json')
    expect(said.code).toBe(0)
    const done = said.json<ForcedRelease>()
    expect(done.free).toBe(true)
    expect(done.masters.map(({ outcome }) => outcome)).toEqual([
      'unreachable',
      ...Array.from({ length: 4 }, () => 'released'),
    ])
    expect(done.masters[1]?.holder).toContain('worker-7')
    const next = await granted(redlock, 'customer:42')
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    await expect(lease.extend()).rejects.toThrow(LeaseLostError)
    expect(lease.signal.aborted).toBe(true)
  })

  it('a free resource needs nothing', async () => {
    const said = await say('release', 'unused')
    expect(said).toMatchObject({ code: 0, out: 'unused is free: nothing to do\n' })
  })
})
