/** What happens to the masters themselves. */
import { statSync, truncateSync } from 'node:fs'
import { aofOf } from '../support/aof.ts'
import type { Fault, Strike } from './fault.ts'
import type { MastersWorld } from './masters-world.ts'

type Struck = Strike<MastersWorld>

const MAX_BEHIND_MS = 80
const RATES = [0.997, 1.003] as const

/**
 * Clocks of masters stay this close to the right time. Farther apart than `maxClockSkewMs` they
 * would not count, and lines would rightly stand still.
 */
export function keepClocksNear(world: MastersWorld): void {
  for (const index of world.masters.servers.keys()) {
    const clock = world.clock(index)
    if (clock !== undefined && Math.abs(clock.aheadMs) > MAX_BEHIND_MS) {
      clock.run(RATES[clock.aheadMs > 0 ? 0 : 1])
    }
  }
}

async function runId({ world, index }: Struck): Promise<string> {
  return /run_id:(\w+)/.exec(await world.masters.connection(index).info('server'))?.[1] ?? ''
}

/** With `change` in between, the master is another process than before. */
async function restarted(strike: Struck, change: () => Promise<void>): Promise<number> {
  const before = await runId(strike)
  await change()
  return (await runId(strike)) === before ? 0 : 1
}

/** Cuts what the last half second may have written; Redis starts from an AOF with a torn tail. */
async function cutTail({ world: { masters }, random, index }: Struck): Promise<number> {
  const file = await aofOf(masters.connection(index))
  await masters.server(index).kill()
  if (file === undefined) return 0
  const { size } = statSync(file)
  const cut = Math.min(size, Math.floor(random.between(1, 20_000)))
  truncateSync(file, size - cut)
  return cut
}

async function withConfig(
  strike: Struck,
  name: string,
  value: string,
  normal: string,
): Promise<number> {
  const redis = strike.world.masters.connection(strike.index)
  await redis.config('SET', name, value)
  await strike.rest(50, 400)
  const stats = await redis.info('errorstats')
  await redis.config('SET', name, normal)
  return /errorstat_OOM:count=(\d+)/.test(stats) ? 1 : 0
}

export const masterFaults: readonly Fault<MastersWorld>[] = [
  {
    kind: 'master:kill',
    target: 'master',
    weight: 2,
    strike: (strike) =>
      restarted(strike, async () => {
        const server = strike.world.masters.server(strike.index)
        await server.kill()
        await strike.rest(10, 500)
        await server.restart()
      }),
  },
  {
    kind: 'master:empty',
    target: 'master',
    weight: 1,
    strike: (strike) =>
      restarted(strike, async () => {
        await strike.world.masters.server(strike.index).restart({ keepData: false })
      }),
  },
  {
    kind: 'master:aof-cut',
    target: 'master',
    weight: 1,
    async strike(strike) {
      const cut = await cutTail(strike)
      await strike.world.masters.server(strike.index).restart()
      return cut > 0 ? 1 : 0
    },
  },
  {
    kind: 'master:flushall',
    target: 'master',
    weight: 1,
    async strike(strike) {
      const redis = strike.world.masters.connection(strike.index)
      const keys = await redis.dbsize()
      await redis.flushall()
      return keys > 0 ? 1 : 0
    },
  },
  {
    kind: 'master:script-flush',
    target: 'master',
    weight: 2,
    async strike(strike) {
      const redis = strike.world.masters.connection(strike.index)
      const before = await redis.info('memory')
      await redis.script('FLUSH')
      return /number_of_cached_scripts:[1-9]/.test(before) ? 1 : 0
    },
  },
  {
    kind: 'master:freeze',
    target: 'masters',
    weight: 5,
    async strike(strike) {
      const servers = strike.indexes.map((index) => strike.world.masters.server(index))
      await Promise.all(servers.map((server) => server.freeze()))
      await strike.rest(20, 900)
      await Promise.all(servers.map((server) => server.thaw()))
      return servers.length
    },
  },
  {
    kind: 'master:out-of-memory',
    target: 'master',
    weight: 2,
    strike: (strike) => withConfig(strike, 'maxmemory', '1', '0'),
  },
  {
    kind: 'master:clients-killed',
    target: 'master',
    weight: 2,
    strike: async (strike) =>
      Number(
        await strike.world.masters
          .connection(strike.index)
          .call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
      ),
  },
  {
    kind: 'master:was-replica',
    target: 'master',
    weight: 1,
    async strike(strike) {
      const redis = strike.world.masters.connection(strike.index)
      const source = strike.world.masters.server((strike.index + 1) % 5)
      await redis.replicaof(source.host, source.port)
      await strike.rest(100, 400)
      const role = (await redis.info('replication')).includes('role:slave')
      await redis.replicaof('NO', 'ONE')
      return role ? 1 : 0
    },
  },
  {
    kind: 'master:clock-rate',
    target: 'master',
    weight: 2,
    strike(strike) {
      const clock = strike.world.clock(strike.index)
      if (clock === undefined) return Promise.resolve(0)
      clock.run(RATES[clock.aheadMs > 0 ? 0 : 1])
      return Promise.resolve(clock.looks > 0 ? 1 : 0)
    },
  },
  {
    kind: 'master:clock-back',
    target: 'master',
    weight: 1,
    strike(strike) {
      const clock = strike.world.clock(strike.index)
      if (clock === undefined || clock.aheadMs < -MAX_BEHIND_MS / 2) return Promise.resolve(0)
      clock.step(-strike.random.between(10, MAX_BEHIND_MS / 2))
      return Promise.resolve(clock.looks > 0 ? 1 : 0)
    },
  },
]
