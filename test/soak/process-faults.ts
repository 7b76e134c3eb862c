/** What happens to the processes that use the masters, and to the queue's server. */
import type { Redis } from 'ioredis'
import { STOPS, type Stop } from '../faults/job-states.ts'
import type { Fault, Strike } from './fault.ts'

function one({ indexes }: Strike): number {
  return indexes[0] ?? 0
}

/** A worker that is told to end must end within its limit; an error here is an anomaly. */
function told(stop: Stop): Fault {
  return {
    kind: `worker:${stop}`,
    target: 'worker',
    weight: 1,
    async strike(strike) {
      const tookMs = await strike.harness.workers.stopOne(one(strike), stop)
      strike.harness.noteExit(tookMs)
      return tookMs > 0 ? 1 : 0
    },
  }
}

/** Breaks one connection of those that a server has. */
async function cutOne({ random }: Strike, redis: Redis): Promise<number> {
  const own = await redis.client('ID')
  const list = (await redis.client('LIST', 'TYPE', 'NORMAL')) as string
  const ids = [...list.matchAll(/^id=(\d+)/gm)].map(([, id]) => Number(id))
  const others = ids.filter((id) => id !== own)
  const id = others[random.integer(0, others.length - 1)]
  return id === undefined ? 0 : Number(await redis.call('CLIENT', 'KILL', 'ID', id))
}

export const processFaults: readonly Fault[] = [
  ...STOPS.map(told),
  {
    kind: 'client:stop',
    target: 'client',
    weight: 4,
    async strike(strike) {
      const { clients } = strike.harness
      clients.stop(one(strike))
      await strike.rest(50, 1_200)
      const stopped = clients.isStopped(one(strike))
      clients.resume(one(strike))
      return stopped ? 1 : 0
    },
  },
  {
    kind: 'client:kill',
    target: 'client',
    weight: 1,
    async strike(strike) {
      const before = strike.harness.clients.pids[one(strike)]
      await strike.harness.clients.replace(one(strike))
      return strike.harness.clients.pids[one(strike)] === before ? 0 : 1
    },
  },
  {
    kind: 'worker:stop',
    target: 'worker',
    weight: 2,
    async strike(strike) {
      const pid = strike.harness.workers.pids[one(strike)]
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
      const before = strike.harness.workers.pids
      await strike.harness.workers.killOne(one(strike) / before.length)
      return strike.harness.workers.pids.some((pid) => !before.includes(pid)) ? 1 : 0
    },
  },
  {
    kind: 'queue:freeze',
    target: 'queue',
    weight: 1,
    async strike(strike) {
      await strike.harness.queue.freeze()
      await strike.rest(50, 600)
      await strike.harness.queue.thaw()
      return 1
    },
  },
  {
    kind: 'queue:clients-killed',
    target: 'queue',
    weight: 1,
    strike: (strike) => strike.harness.killQueueClients(),
  },
  {
    kind: 'queue:connection-cut',
    target: 'queue',
    weight: 3,
    strike: (strike) => cutOne(strike, strike.harness.queueRedis),
  },
  {
    kind: 'master:connection-cut',
    target: 'master',
    weight: 3,
    strike: (strike) => cutOne(strike, strike.harness.master(one(strike))),
  },
  {
    kind: 'queue:full',
    target: 'queue',
    weight: 2,
    async strike(strike) {
      const redis = strike.harness.queueRedis
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
