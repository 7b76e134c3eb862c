/**
 * Matrix rows 2 and 3: masters come back with less memory than they had, alone and one after the
 * other.
 */
import { randomUUID } from 'node:crypto'
import { readFile, stat, truncate } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { Redlock, silentLogger } from '../../src/index.ts'
import { monotonicMs } from './monotonic.ts'
import { until } from '../fixtures.ts'
import { aofOf } from '../support/aof.ts'
import { neverTwoHolders } from '../support/undisturbed.ts'
import type { Harness } from './harness.ts'
import { ALL, SEEDS, useStage } from './scenario.ts'
import { hasCopied } from '../support/has-copied.ts'

const stage = useStage({
  masters: 5,
  config: {
    appendonly: 'yes',
    appendfsync: 'everysec',
    'auto-aof-rewrite-percentage': '0',
    'repl-diskless-sync-delay': '0',
  },
})

/** Leases that are held for most of their time, so that there is something to forget. */
const HOLDING = { leaseMs: 500, maxLeaseMs: 600, holdMs: 200, loops: 3, resources: 5 } as const

async function runIds(harness: Harness): Promise<readonly string[]> {
  return Promise.all(
    harness.masters.connections.map(
      async (redis) => /run_id:(\w+)/.exec(await redis.info('server'))?.[1] ?? '',
    ),
  )
}

type Loss = (harness: Harness, index: number) => Promise<number>

/** Each returns how much was lost, as a number that must not be 0. */
const losses: readonly (readonly [string, Loss])[] = [
  [
    'with its memory',
    async (harness, index) => {
      const [before] = (await runIds(harness)).slice(index)
      await harness.masters.server(index).restart()
      await harness.masters.connection(index).ping()
      return (await runIds(harness))[index] === before ? 0 : 1
    },
  ],
  [
    'empty',
    async (harness, index) => {
      const before = await harness.masters.connection(index).dbsize()
      await harness.masters.server(index).restart({ keepData: false })
      return before
    },
  ],
  [
    'with its last second cut off',
    async (harness, index) => {
      const file = (await aofOf(harness.masters.connection(index))) ?? 'no-aof'
      await harness.masters.server(index).kill()
      const { size } = await stat(file)
      const tail = await wholeCommandsWithin(file, Math.floor(size / 2))
      await truncate(file, tail)
      await harness.masters.server(index).restart()
      return size - tail
    },
  ],
  [
    'after FLUSHALL',
    (harness, index) => lostBy(harness, index, () => harness.masters.connection(index).flushall()),
  ],
  [
    'after it was a replica',
    (harness, index) =>
      lostBy(harness, index, async () => {
        const source = harness.masters.server((index + 1) % 5)
        await harness.masters.connection(index).replicaof(source.host, source.port)
        await hasCopied(harness.masters.connection(index))
        await harness.masters.connection(index).replicaof('NO', 'ONE')
      }),
  ],
]

async function lostBy(
  harness: Harness,
  index: number,
  lose: () => Promise<unknown>,
): Promise<number> {
  const before = await harness.masters.connection(index).dbsize()
  await lose()
  return before
}

/**
 * An AOF may be cut anywhere, but Redis only starts by itself from one that ends with a whole
 * command or a torn tail.
 */
async function wholeCommandsWithin(file: string, bytes: number): Promise<number> {
  const text = (await readFile(file)).subarray(0, bytes).toString('latin1')
  const cut = text.lastIndexOf('\r\n*')
  return cut < 0 ? 0 : cut + 2
}

it.each(SEEDS)(
  `a master comes back ${losses.map(([how]) => how).join(', ')} and admits no second holder (seed %i)`,
  async (seed) => {
    const harness = await stage.harness({ seed, ...HOLDING })
    for (const [forgetful, [, lose]] of losses.entries()) {
      // Leases are on three masters only, so the one that forgets and the two that never knew would
      // be a quorum.
      const away = [(forgetful + 1) % 5, (forgetful + 2) % 5]
      await Promise.all(away.map((index) => harness.masters.proxy(index).refuse()))
      await harness.progress(6)
      expect(await lose(harness, forgetful)).toBeGreaterThan(0)
      await Promise.all(away.map((index) => harness.masters.proxy(index).pass()))
      await harness.progress(10)
    }
    expect(await harness.finish()).toEqual([])
  },
)

it('all five come back empty at once: nothing is granted for one maxLeaseMs', async () => {
  const harness = await stage.harness({ seed: 7, ...HOLDING })
  const killedAt = monotonicMs()
  await Promise.all(harness.masters.servers.map((server) => server.kill()))
  await Promise.all(harness.masters.servers.map((server) => server.restart({ keepData: false })))
  await harness.progress(5)
  const after = [...harness.history.leases.values()].filter(({ attemptAt }) => attemptAt > killedAt)
  const firstAt = Math.min(...after.map(({ grantedAt }) => grantedAt))
  expect(firstAt - killedAt).toBeGreaterThan(harness.maxLeaseMs)
  expect(await harness.finish()).toEqual([])
})

it('a rolling restart slower than the quarantine: a lease that is renewed survives it', async () => {
  // Long enough for a keeper on a busy machine; each master is quarantined for as long.
  const LEASE_MS = 600
  const { fleet } = stage
  await stage.undisturbed(async () => {
    const options = {
      masters: fleet.urls,
      namespace: `rolling-${randomUUID()}`,
      leaseMs: LEASE_MS,
      maxLeaseMs: LEASE_MS,
      masterTimeoutMs: 200,
      logger: silentLogger,
    }
    await using redlock = new Redlock(options)
    await redlock.bootstrap({ newFleet: true })
    await using lease = await redlock.acquire('r', { autoExtend: true })
    await using rival = new Redlock(options)
    await rival.ready()
    const voting = (): boolean => redlock.status().masters.every(({ state }) => state === 'voting')
    for (const server of fleet.masters) {
      await server.restart({ keepData: false })
      await until('the restarted master votes again', voting)
      const outcome = await rival.tryAcquire('r')
      neverTwoHolders(lease, outcome)
      expect(outcome.status).not.toBe('granted')
    }
    expect(lease.remainingMs()).toBeGreaterThan(0)
    expect((await lease.extend()).status).toBe('extended')
  })
}, 150_000)

it.each(SEEDS)(
  'a rolling restart faster than the quarantine: at most one holder (seed %i)',
  async (seed) => {
    const harness = await stage.harness({ seed, ...HOLDING })
    for (let round = 0; round < (ALL ? 3 : 1); round++) {
      for (const server of harness.masters.servers) await server.restart({ keepData: false })
      await harness.progress(5)
    }
    expect(harness.history.refusals.get('unreachable') ?? 0).toBeGreaterThan(0)
    expect(await harness.finish()).toEqual([])
  },
)
