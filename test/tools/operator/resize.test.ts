/** `resize`: one fleet at any time, whatever interrupts it; clients follow by themselves. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock, type Clock } from '../../../src/clock.ts'
import { Redlock, silentLogger, type RedlockOptions } from '../../../src/index.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { FleetProbe } from '../../../src/tools/operator/fleet-probe.ts'
import { resizeFleet } from '../../../src/tools/operator/resize.ts'
import { planResize, type ResizeTarget } from '../../../src/tools/operator/resize-plan.ts'
import { granted, until } from '../../fixtures.ts'
import { ask } from '../../support/ask.ts'
import { cli, runningCli } from '../cli/run-cli.ts'
import { fleetEnv } from '../../support/fleet-env.ts'

const NAMESPACE = 'resize'
const KEPT = { appendonly: 'yes', appendfsync: 'everysec' }
const TERMS = { leaseMs: 800, maxLeaseMs: 2_000, namespace: NAMESPACE, masterTimeoutMs: 400 }
const closers: (() => unknown)[] = []
let servers: readonly TestServer[] = []
let urls: readonly string[] = []

beforeEach(async () => {
  servers = await Promise.all(Array.from({ length: 5 }, () => startServer({ config: KEPT })))
  urls = servers.map(({ url }) => url)
})
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  await Promise.all(servers.map((server) => server.close()))
})

function client(size: number, options: Partial<RedlockOptions> = {}): Redlock {
  const masters = urls.slice(0, size)
  const redlock = new Redlock({ ...TERMS, masters, logger: silentLogger, ...options })
  closers.push(() => redlock.close())
  return redlock
}

/** Of a new fleet. */
async function founder(size: number): Promise<Redlock> {
  const redlock = client(size)
  await redlock.bootstrap({ newFleet: true })
  return redlock
}

/** A client that follows a resize. */
async function follower(from: number, to: number): Promise<Redlock> {
  const redlock = client(to, { previous: { masters: urls.slice(0, from) } })
  await redlock.ready()
  return redlock
}

function probes(size: number, masters = urls.slice(0, size)): FleetProbe {
  const probe = new FleetProbe({ masters, namespace: NAMESPACE, timeoutMs: 2_000 })
  closers.push(() => {
    probe.close()
  })
  return probe
}

async function resize(
  from: number,
  to: number,
  waits: (ms: number) => void = () => undefined,
  target: ResizeTarget = {},
): ReturnType<typeof resizeFleet> {
  const [old, next] = [probes(from), probes(to)]
  return resizeFleet(old, next, await planResize(old, next, target), waits)
}

/** A clock that is wrong. */
function clockAt(offsetMs: number): Clock {
  const wallNow = (): number => systemClock.wallNow() + offsetMs
  return Object.assign(Object.create(systemClock) as Clock, { wallNow })
}

/** What a master has stored of its fleet. */
const recordOf = (url: string | undefined, field: string): Promise<string | null> =>
  ask(url ?? '', (one) => one.hget(`${NAMESPACE}:master`, field))

const isRecorded = (url: string | undefined): Promise<boolean> =>
  ask(url ?? '', async (one) => (await one.exists(`${NAMESPACE}:master`)) === 1)

/** It is granted a lease, as soon as there can be one. */
async function grants(redlock: Redlock, waitMs = 5_000): Promise<void> {
  await (await redlock.acquire('r', { waitMs })).release()
}

const crash = (): never => {
  throw new Error('killed')
}

describe('masters', () => {
  test('1 to 3 to 5 to 3: followers go on, tokens rise, and others are refused', async () => {
    const stays = await founder(1)
    const tokens: number[] = []
    const take = async (redlock: Redlock): Promise<void> => {
      const lease = await redlock.acquire('r', { waitMs: 10_000 })
      tokens.push(lease.fencingToken)
      await lease.release()
    }
    for (const [from, to] of [
      [1, 3],
      [3, 5],
      [5, 3],
    ] as const) {
      const redlock = await follower(from, to)
      await take(redlock)
      expect(redlock.quorum).toBe(Math.floor(from / 2) + 1)
      await resize(from, to)
      await take(redlock)
      // A quorum of the new ones is enough for the lease.
      await vi.waitFor(() => {
        const states = redlock.status().masters.map(({ state }) => state)
        expect(states).toEqual(Array(to).fill('voting'))
      })
      await take(client(to)) // One that starts later needs to know nothing of it.
      await redlock.close()
    }
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
    expect((await stays.tryAcquire('other')).status).toBe('unreachable')
    await until('it says why', () =>
      JSON.stringify(stays.status()).includes('the fleet has 3 masters'),
    )
  })

  test('a lease of the old fleet is over before the new one grants', async () => {
    const redlock = await founder(1)
    const lease = await granted(redlock, 'r')
    let until = 0
    lease.signal.addEventListener('abort', () => {
      until = performance.now()
    })
    const next = await follower(1, 3)
    let waited = 0
    const { pausedMs } = await resize(1, 3, (ms) => (waited = ms))
    const later = await next.acquire('r', { waitMs: 5_000 })
    expect(until).toBeGreaterThan(0)
    expect(performance.now()).toBeGreaterThan(until)
    expect(later.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect(waited).toBeGreaterThan(0) // Of the 800 ms of a lease that is renewed until then.
    expect(pausedMs).toBeLessThan(2_000 * 1.01)
  })

  test('the clock of a later client is behind: its tokens are larger all the same', async () => {
    const redlock = await founder(1)
    const { fencingToken } = await granted(redlock, 'r')
    await resize(1, 3)
    const next = client(3, { clock: clockAt(-60_000) })
    await ask(urls[0] ?? '', (one) => one.del(`${NAMESPACE}:fence:r`)) // Only the others count.
    await next.ready()
    const after = await next.acquire('r', { waitMs: 5_000 })
    expect(after.fencingToken).toBeGreaterThan(fencingToken)
  })

  test('a follower founds no fleet, and one that is there before the resize does no harm', async () => {
    await founder(1)
    const next = await follower(1, 3)
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    for (const url of urls.slice(1, 3)) expect(await isRecorded(url)).toBe(false)
    expect(next.quorum).toBe(1)
  })

  test('a follower founds no fleet, also where the one before has lost its memory', async () => {
    const next = client(3, { previous: { masters: urls.slice(0, 1) } })
    const reason = (): string => next.status().masters[0]?.reason ?? 'votes'
    await until('it is refused', () => !/^(connecting|enrolling)/.test(reason()))
    expect(reason()).toContain('a client with `previous` founds no fleet')
    expect(await isRecorded(urls[0])).toBe(false)
  })
})

describe('a client that has not heard of the resize', () => {
  test('does not enrol a master that lost its memory later in the fleet that was', async () => {
    const stays = await founder(3)
    await (await granted(stays, 'r')).release()
    await resize(3, 5)
    const [lost] = servers
    await lost?.restart({ keepData: false })
    const about = (): string => stays.status().masters[0]?.reason ?? 'votes'
    await until('it has asked', () => !/^(connecting|enrolling)/.test(about()))
    expect(about()).toContain('has no memory, and other masters refuse this client')
    await client(5).ready()
    const size = (): Promise<string | null> => recordOf(lost?.url, 'fleetSize')
    await until('the others take it back', async () => (await size()) === '5')
  })

  test('does not take a master that lost its memory for its own alone', async () => {
    const stays = await founder(1)
    await resize(1, 3)
    const [first] = servers
    const about = (): string => stays.status().masters[0]?.reason ?? 'votes'
    await until('it knows that it is refused', async () => {
      await stays.tryAcquire('r')
      return about().includes('the fleet has 3 masters')
    })
    await first?.restart({ keepData: false })
    await until('it has asked', () => about().includes('refused this client before'))
    await client(3).ready()
    const size = (): Promise<string | null> => recordOf(first?.url, 'fleetSize')
    await until('the others take it back', async () => (await size()) === '3')
    expect((await stays.tryAcquire('r')).status).toBe('unreachable')
  })
})

describe('interrupted', () => {
  test('after all are closed: nothing is granted until it is run again', async () => {
    const redlock = await founder(3)
    const next = await follower(3, 5)
    await expect(resize(3, 5, crash)).rejects.toThrow('killed')
    const status = async (): Promise<string> => (await redlock.tryAcquire('r')).status
    await until('it is refused', async () => (await status()) === 'unreachable')
    expect((await next.tryAcquire('r')).status).toBe('unreachable')
    await until('it says why', () =>
      redlock.status().masters.every(({ reason = '' }) => reason.includes('closed for a resize')),
    )
    const env = fleetEnv(urls.slice(0, 3), NAMESPACE)
    const doctor = await cli(['doctor'], { env })
    expect(doctor.code).toBe(3)
    expect(doctor.out).toContain('is closed: a resize of its fleet is not finished')
    await resize(3, 5)
    await grants(next)
    expect(next.quorum).toBe(3)
  })

  test('after all are closed: the way back is a resize to what there was', async () => {
    const redlock = await founder(3)
    await expect(resize(3, 5, crash)).rejects.toThrow('killed')
    const flags = urls.slice(0, 3).flatMap((url) => ['--master', url])
    const env = { BULLMQ_REDLOCK_NAMESPACE: NAMESPACE }
    const back = await cli(['resize', ...flags, '--yes', '--json'], { env })
    expect(back.json()).toMatchObject({
      left: urls
        .slice(3)
        .map((url) => new URL(url).host)
        .sort(),
    })
    await grants(redlock)
    expect(await recordOf(urls[4], 'resizing')).not.toBeNull()
    await resize(3, 5) // What is left of the first one is in nobody's way.
    expect((await client(5).acquire('r', { waitMs: 5_000 })).fencingToken).toBeGreaterThan(0)
  })

  test('with Ctrl-C: the command says that masters are closed, and what to do', async () => {
    const longer = { maxLeaseMs: 30_000, leaseMs: 30_000 }
    const redlock = client(3, longer)
    await redlock.bootstrap({ newFleet: true })
    await granted(redlock, 'r')
    const env = fleetEnv(urls.slice(0, 3), NAMESPACE)
    await using resizing = runningCli(['resize', '--to-max-lease-ms', '40000', '--yes'], env)
    await resizing.line(/all masters are closed/)
    resizing.kill('SIGINT')
    const { code, err } = await resizing.end()
    expect(code).toBe(130)
    expect(err.at(-1)).toContain('closed masters grant nothing until the same command has run')
  })

  test.each([
    ['on the way back', 3],
    ['on the way to what was begun first', 5],
  ] as const)('while one replaces another: both are there, and it goes on %s', async (_, to) => {
    const redlock = await founder(3)
    await expect(resize(3, 5, crash)).rejects.toThrow('killed')
    const back = [probes(3), probes(3)] as const
    const plan = await planResize(...back, {})
    await servers[1]?.freeze()
    await expect(resizeFleet(...back, plan, crash)).rejects.toThrow('Run the same command again')
    await servers[1]?.thaw()
    await resize(3, to)
    await grants(to === 3 ? redlock : client(5), 10_000)
  })

  test('who planned before another one began is told to finish that one', async () => {
    await founder(3)
    const late = [probes(3), probes(3)] as const
    const plan = await planResize(...late, { maxLeaseMs: 5_000 })
    await expect(resize(3, 5, crash)).rejects.toThrow('killed')
    await expect(resizeFleet(...late, plan, () => undefined)).rejects.toThrow(
      /: a resize to [^]* was begun: finish it first\.$/,
    )
  })

  test('what several left on new masters does no harm', async () => {
    await founder(3)
    await expect(resize(3, 4, crash)).rejects.toThrow('killed')
    await resize(3, 3)
    const urlsBefore = urls
    urls = [...urls.slice(0, 3), ...urls.slice(4), ...urls.slice(3, 4)]
    await expect(resize(3, 4, crash)).rejects.toThrow('killed')
    await resize(3, 3)
    urls = urlsBefore
    await resize(3, 5)
    await grants(client(5))
  })

  test('while masters are opened: those that are open are the new fleet', async () => {
    await founder(3)
    const next = await follower(3, 5)
    const frozen = servers[4]
    const half = resize(3, 5, () => void frozen?.freeze())
    await expect(half).rejects.toThrow('Run the same command again')
    await frozen?.thaw()
    await grants(next)
    await expect(resize(3, 3)).rejects.toThrow('The fleet has 5 masters')
    const { late } = await resize(3, 5)
    expect(late).toEqual([])
    await until('all vote', () => next.status().masters.every(({ state }) => state === 'voting'))
  })

  test('a master that voted for the new fleet and lost its memory is not opened again', async () => {
    await founder(1)
    const next = await follower(1, 3)
    const [, second, third] = servers
    await expect(resize(1, 3, () => void third?.freeze())).rejects.toThrow('Run the same command')
    await until('it follows', () => next.quorum === 2)
    await third?.thaw()
    await ask(second?.url ?? '', (one) => one.flushall())
    const { late } = await resize(1, 3)
    expect(late).toEqual([new URL(second?.url ?? '').host])
    expect(await recordOf(second?.url, 'votesInMs')).not.toBe('0')
  })
})

describe('interrupted, and masters lost their memory', () => {
  test.each([
    ['the first of 1 to 3, while all are closed', 1, 3, [0, 1, 2], [0], 0],
    ['the first of 1 to 3, and no other was opened', 1, 3, [1, 2], [0], 0],
    ['the first of 1 to 3, and another one was opened', 1, 3, [2], [0], 1],
    ['all that were opened of 3 to 5', 3, 5, [3, 4], [0, 1, 2], 0],
    ['the first of 1 to 3, after all were opened', 1, 3, [], [0], 0],
    ['none, after all were opened', 5, 3, [], [], 0],
  ] as const)('%s: the same command goes on', async (_, from, to, frozen, lost, late) => {
    await founder(from)
    const next = await follower(from, to)
    const first = resize(from, to, () => {
      for (const index of frozen) void servers[index]?.freeze()
    })
    if (frozen.length > 0) await expect(first).rejects.toThrow('Run the same command again')
    await first.catch(() => undefined)
    for (const index of frozen) await servers[index]?.thaw()
    for (const index of lost) await ask(urls[index] ?? '', (one) => one.flushall())
    const flags = [urls.slice(0, from).map((url) => ['--master', url])]
    flags.push(urls.slice(0, to).map((url) => ['--to', url]))
    const env = { BULLMQ_REDLOCK_NAMESPACE: NAMESPACE }
    const again = await cli(['resize', ...flags.flat(2), '--yes', '--json'], { env })
    const done = frozen.length === 0 ? { changed: false } : { changed: true, voting: to - late }
    expect(again.json()).toMatchObject({ ...done, maxLeaseMs: TERMS.maxLeaseMs })
    expect((await next.acquire('r', { waitMs: 5_000 })).fencingToken).toBeGreaterThan(0)
    expect(next.quorum).toBe(Math.floor(to / 2) + 1)
  })

  test('leases of masters that were opened and forgot them are over before it goes on', async () => {
    await founder(3)
    const longer = { maxLeaseMs: 5_000 }
    const frozen = servers[2]
    const half = resize(3, 3, () => void frozen?.freeze(), longer)
    await expect(half).rejects.toThrow('Run the same command again')
    const lease = await client(3, longer).acquire('r', { leaseMs: 5_000 })
    await frozen?.thaw()
    for (const url of urls.slice(0, 2)) await ask(url, (one) => one.flushall())
    let waitMs = 0
    await resize(3, 3, (ms) => (waitMs = ms), longer)
    expect(waitMs).toBeGreaterThan(5_000)
    expect(lease.remainingMs()).toBe(0)
  })

  test('who forgot a fleet and has no goal is not told that it is new', async () => {
    await founder(1)
    await ask(urls[0] ?? '', (one) => one.flushall())
    await expect(resize(1, 1)).rejects.toThrow('they are new, or lost their memory')
  })
})

describe('again', () => {
  test('a master that forgot leases is known to have forgotten them, however often it is run', async () => {
    await founder(1)
    // Its file had the record, and not the last leases.
    await ask(urls[0] ?? '', (one) => one.hset(`${NAMESPACE}:master`, 'runId', 'before'))
    for (let times = 0; times < 2; times++) {
      let waitMs = 0
      const killed = resize(1, 3, (ms) => {
        waitMs = ms
        crash()
      })
      await expect(killed).rejects.toThrow('killed')
      expect(waitMs).toBeGreaterThan(2_000)
    }
    await resize(1, 3)
    let waitMs = 0
    await resize(3, 5, (ms) => (waitMs = ms))
    expect(waitMs).toBeLessThan(2_000)
  })

  test('masters that are opened by a second run grant larger tokens, too', async () => {
    const redlock = await founder(1)
    const { fencingToken } = await granted(redlock, 'r')
    const third = servers[2]
    await expect(resize(1, 3, () => void third?.freeze())).rejects.toThrow('Run the same command')
    await third?.thaw()
    await resize(1, 3)
    for (const url of urls.slice(0, 3)) {
      expect(Number(await recordOf(url, 'floorUs'))).toBeGreaterThan(fencingToken)
    }
  })

  test('masters of a later fleet know the tokens of all fleets before it', async () => {
    const redlock = await founder(1)
    const { fencingToken } = await granted(redlock, 'r')
    await resize(1, 3)
    await ask(urls[0] ?? '', (one) => one.flushall())
    await client(3).ready()
    await until('it is enrolled', () => isRecorded(urls[0]))
    await resize(3, 5)
    for (const url of urls) {
      expect(Number(await recordOf(url, 'floorUs'))).toBeGreaterThan(fencingToken)
    }
  })

  test('tokens are larger than those whose counters had expired, also where counters live longer', async () => {
    const redlock = client(1, { fenceTtlMs: 20_000 })
    await redlock.bootstrap({ newFleet: true })
    const expiredUs = (await granted(redlock, 'r')).fencingToken - 20_000_000
    await ask(urls[0] ?? '', async (one) => one.del(`${NAMESPACE}:fence:r`))
    await resize(1, 1, undefined, { fenceTtlMs: 86_400_000 })
    const next = client(1, { clock: clockAt(-60_000) })
    const later = await next.acquire('r', { waitMs: 5_000 })
    expect(later.fencingToken).toBeGreaterThan(expiredUs)
  })

  test('who planned before another resize waits for the leases that this one allows', async () => {
    await founder(3)
    const longer = { maxLeaseMs: 5_000 }
    const late = [probes(3), probes(3)] as const
    const plan = await planResize(...late, longer)
    await resize(3, 3, undefined, longer)
    const redlock = client(3, longer)
    await redlock.ready()
    const lease = await granted(redlock, 'r', { leaseMs: 5_000 })
    let waitMs = 0
    await resizeFleet(...late, plan, (ms) => (waitMs = ms))
    expect(waitMs).toBeGreaterThan(3_000)
    expect(lease.remainingMs()).toBeLessThanOrEqual(0)
  })
})

describe('maxLeaseMs and fenceTtlMs', () => {
  test('a client with `previous` follows; the longer lease is refused before', async () => {
    await founder(3)
    const next = client(3, { maxLeaseMs: 5_000, previous: { maxLeaseMs: 2_000 } })
    await next.ready()
    await expect(next.tryAcquire('r', { leaseMs: 4_000 })).rejects.toThrow('(2000, one value')
    await resize(3, 3, undefined, { maxLeaseMs: 5_000 })
    await until('it follows', () => next.maxLeaseMs === 5_000)
    await (await next.acquire('r', { leaseMs: 4_000, waitMs: 5_000 })).release()
    await resize(3, 3, undefined, { fenceTtlMs: 60_000 })
    const other = client(3, { maxLeaseMs: 5_000, fenceTtlMs: 60_000 })
    await grants(other)
  })

  test.each([1_000, 3_000])('leases are as long as the fleet allows: %d', async (maxLeaseMs) => {
    await founder(3)
    const { leaseMs: _, ...defaults } = TERMS
    const masters = urls.slice(0, 3)
    const previous = { maxLeaseMs: TERMS.maxLeaseMs }
    const next = new Redlock({
      ...{ ...defaults, masters, previous, maxLeaseMs, logger: silentLogger },
    })
    closers.push(() => next.close())
    await next.ready()
    expect(next.maxLeaseMs).toBe(Math.min(maxLeaseMs, 2_000))
    const unchangeable = Object.freeze({ maxExtensions: 5 })
    const lengths = async (): Promise<readonly number[]> => {
      const leases = await Promise.all([
        next.acquire('usual', { waitMs: 5_000 }),
        next.acquire('without options'),
        granted(next, 'with options', unchangeable),
      ])
      await Promise.all(leases.map((lease) => lease.release()))
      return leases.map(({ leaseMs }) => leaseMs)
    }
    expect(await lengths()).toEqual([2_000, 2_000, 2_000])
    await granted(next, 'held')
    const waiting = next.acquire('held', { waitMs: 10_000 })
    await resize(3, 3, undefined, { maxLeaseMs })
    await until('it follows', () => next.leaseMs === maxLeaseMs)
    await until('it grants', async () => (await next.tryAcquire('r')).status === 'granted')
    expect(await lengths()).toEqual([maxLeaseMs, maxLeaseMs, maxLeaseMs])
    expect((await waiting).leaseMs).toBe(Math.min(maxLeaseMs, 2_000))
  })

  test('the command says the pause, asks, and does nothing the second time', async () => {
    await founder(3)
    const env = fleetEnv(urls.slice(0, 3), NAMESPACE)
    const args = ['resize', '--to-max-lease-ms', '5000']
    const unasked = await cli(args, { env })
    expect(unasked.code).toBe(2)
    expect(unasked.err).toContain('at most 2.0 s.')
    const done = await cli([...args, '--yes'], { env })
    expect(done.code).toBe(0)
    expect(done.out).toMatch(/^3 of 3 masters vote, with maxLeaseMs 5000; no lease was granted for/)
    const again = await cli([...args, '--yes', '--json'], { env })
    expect(again).toMatchObject({ code: 0 })
    expect(again.json()).toMatchObject({ changed: false, maxLeaseMs: 5_000 })
    expect((await cli(['doctor', '--json'], { env })).out).toContain('"voting":3')
  })

  test('the command ends with 3 where fewer than a quorum answer, with 1 where one is away', async () => {
    await founder(3)
    const env = fleetEnv(urls.slice(0, 3), NAMESPACE)
    const args = ['resize', '--to-max-lease-ms', '5000', '--yes', '--timeout-ms', '300']
    try {
      await servers[0]?.freeze()
      expect((await cli(args, { env })).code).toBe(1)
      await servers[1]?.freeze()
      const { code, err } = await cli(args, { env })
      expect([code, err]).toEqual([3, expect.stringContaining('All masters must answer.')])
    } finally {
      await Promise.all([servers[0]?.thaw(), servers[1]?.thaw()])
    }
  })
})

describe('calls that are under way', () => {
  test('one that outlives the old fleet is not told that its client is closed', async () => {
    await founder(1)
    const previous = { masters: urls.slice(0, 1) }
    const slow = { leaseMs: TERMS.maxLeaseMs, masterTimeoutMs: TERMS.maxLeaseMs }
    // The process stands still: the old fleet ends at once when this client follows.
    const after: Clock['after'] = (delayMs, run) =>
      systemClock.after(delayMs === TERMS.maxLeaseMs && next.quorum === 2 ? 0 : delayMs, run)
    const clock = Object.assign(Object.create(systemClock) as Clock, { after })
    const next: Redlock = client(3, { previous, clock, ...slow })
    await next.ready()
    await resize(1, 3)
    await servers[0]?.freeze() // Its answer never comes.
    expect(next.quorum).toBe(1)
    const [tried, waited] = [next.tryAcquire('r'), next.acquire('waited', { waitMs: 10_000 })]
    expect((await tried).status).toBe('unreachable')
    expect((await waited).remainingMs()).toBeGreaterThan(0)
    await servers[0]?.thaw()
  })
})

describe('refuses what is unsafe, and changes nothing', () => {
  test.each<[string, () => Promise<unknown>, string]>([
    [
      'a master is missing in the list',
      () => resize(2, 5),
      'The fleet has 3 masters, and 2 are named',
    ],
    [
      'masters do not answer',
      async () => {
        for (const server of servers.slice(1, 3)) await server.kill()
        await resize(3, 5).catch((error: unknown) => {
          expect(String(error)).toContain(`${servers[2]?.port ?? ''} does not answer: `)
          throw error
        })
      },
      'All masters must answer',
    ],
    [
      'a new master may evict',
      async () => {
        await ask(urls[4] ?? '', (one) => one.config('SET', 'maxmemory-policy', 'allkeys-lru'))
        await resize(3, 5)
      },
      'may evict leases',
    ],
    [
      'a new master is of another fleet',
      async () => {
        urls = [...urls.slice(3), ...urls.slice(0, 3)]
        await founder(1)
        urls = [...urls.slice(2), ...urls.slice(0, 2)]
        await resize(3, 5)
      },
      'A new master is one of another fleet, of 1',
    ],
    [
      'counters too short',
      () => resize(3, 3, undefined, { fenceTtlMs: 10_000 }),
      '10 × maxLeaseMs',
    ],
    [
      'another list of the same size',
      () => planResize(probes(3), probes(3, urls.slice(2)), {}),
      'adds masters or takes some out',
    ],
  ])('%s', async (_, attempt, why) => {
    const redlock = await founder(3)
    await expect(attempt()).rejects.toThrow(why)
    if (!why.includes('answer')) await (await redlock.acquire('r')).release()
  })

  test('no client has used the masters', async () => {
    await expect(resize(3, 5)).rejects.toThrow('These masters know of no fleet')
  })
})
