/** What happens to the processes that use the masters, and to the queue's server. */
import type { Redis } from 'ioredis'
import { STOPS, type Stop } from '../faults/job-states.ts'
import type { Fault, Strike } from './fault.ts'
import type { MastersWorld } from './masters-world.ts'
import type { Work } from './work.ts'

interface AtWork {
  readonly work: Work
}

/** A worker that is told to end must end within its limit; an error here is an anomaly. */
function told(stop: Stop): Fault<AtWork> {
  return {
    kind: `worker:${stop}`,
    target: 'worker',
    weight: 1,
    async strike(strike) {
      const { work } = strike.world
      const tookMs = await work.workers.stopOne(strike.index, stop)
      work.longestExitMs = Math.max(work.longestExitMs, tookMs)
      return tookMs > 0 ? 1 : 0
    },
  }
}

/** Breaks one connection of those that a server has. */
async function cutOne({ random }: Strike<unknown>, redis: Redis): Promise<number> {
  const own = await redis.client('ID')
  const list = (await redis.client('LIST', 'TYPE', 'NORMAL')) as string
  const ids = [...list.matchAll(/^id=(\d+)/gm)].map(([, id]) => Number(id))
  const others = ids.filter((id) => id !== own)
  const id = others[random.integer(0, others.length - 1)]
  return id === undefined ? 0 : Number(await redis.call('CLIENT', 'KILL', 'ID', id))
}

export const processFaults: readonly Fault<AtWork>[] = [
  ...STOPS.map(told),
  {
    kind: 'client:stop',
    target: 'client',
    weight: 4,
    async strike(strike) {
      const { clients } = strike.world.work
      clients.stop(strike.index)
      await strike.rest(50, 1_200)
      const stopped = clients.isStopped(strike.index)
      clients.resume(strike.index)
      return stopped ? 1 : 0
    },
  },
  {
    kind: 'client:kill',
    target: 'client',
    weight: 1,
    async strike(strike) {
      const before = strike.world.work.clients.pids[strike.index]
      await strike.world.work.clients.replace(strike.index)
      return strike.world.work.clients.pids[strike.index] === before ? 0 : 1
    },
  },
  {
    kind: 'worker:stop',
    target: 'worker',
    weight: 2,
    async strike(strike) {
      const pid = strike.world.work.workers.pids[strike.index]
      if (pid === undefined) return 0
      process.kill(pid, 'SIGSTOP')
      await strike.rest(50, 1_200)
      process.kill(pid, 'SIGCONT')
      return 1
    },
  },
  {
    kind: 'worker:kill',
    target: 'worker',
    weight: 1,
    async strike(strike) {
      const before = strike.world.work.workers.pids
      await strike.world.work.workers.killOne(strike.index / before.length)
      return strike.world.work.workers.pids.some((pid) => !before.includes(pid)) ? 1 : 0
    },
  },
]

export const queueFaults: readonly Fault<MastersWorld>[] = [
  {
    kind: 'queue:freeze',
    target: 'queue',
    weight: 1,
    async strike(strike) {
      await strike.world.queue.freeze()
      await strike.rest(50, 600)
      await strike.world.queue.thaw()
      return 1
    },
  },
  {
    kind: 'queue:clients-killed',
    target: 'queue',
    weight: 1,
    strike: async ({ world }) =>
      Number(await world.queueRedis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
  },
  {
    kind: 'queue:connection-cut',
    target: 'queue',
    weight: 3,
    strike: (strike) => cutOne(strike, strike.world.queueRedis),
  },
  {
    kind: 'master:connection-cut',
    target: 'master',
    weight: 3,
    strike: (strike) => cutOne(strike, strike.world.masters.connection(strike.index)),
  },
  {
    kind: 'queue:full',
    target: 'queue',
    weight: 2,
    async strike(strike) {
      const redis = strike.world.queueRedis
      const refused = async (): Promise<number> =>
        Number(/errorstat_OOM:count=(\d+)/.exec(await redis.info('errorstats'))?.[1] ?? 0)
      const before = await refused()
      await redis.config('SET', 'maxmemory', '1')
      await strike.rest(50, 1_500)
      await redis.config('SET', 'maxmemory', '0')
      return (await refused()) - before
    },
  },
]
