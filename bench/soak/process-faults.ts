/** What happens to the processes that use the masters, and to the queue's server. */
import { monotonicMs } from '../../test/faults/monotonic.ts'
import type { Fault, Strike } from './fault.ts'

function one({ indexes }: Strike): number {
  return indexes[0] ?? 0
}

export const processFaults: readonly Fault[] = [
  {
    kind: 'client:stop',
    target: 'client',
    weight: 4,
    async strike(strike) {
      const { crew } = strike.arena
      crew.stop(one(strike))
      await strike.rest(50, 1_200)
      const stopped = crew.isStopped(one(strike))
      crew.resume(one(strike))
      return stopped ? 1 : 0
    },
  },
  {
    kind: 'client:kill',
    target: 'client',
    weight: 1,
    async strike(strike) {
      const before = strike.arena.crew.pids[one(strike)]
      await strike.arena.crew.replace(one(strike))
      return strike.arena.crew.pids[one(strike)] === before ? 0 : 1
    },
  },
  {
    kind: 'worker:stop',
    target: 'worker',
    weight: 2,
    async strike(strike) {
      const pid = strike.arena.force.pids[one(strike)]
      if (pid === undefined) return 0
      const from = monotonicMs()
      process.kill(pid, 'SIGSTOP')
      await strike.rest(50, 1_200)
      process.kill(pid, 'SIGCONT')
      strike.arena.noteStop(pid, { from, to: monotonicMs() })
      return 1
    },
  },
  {
    kind: 'worker:kill',
    target: 'worker',
    weight: 1,
    async strike(strike) {
      const before = strike.arena.force.pids
      await strike.arena.force.killOne(one(strike) / before.length)
      return strike.arena.force.pids.some((pid) => !before.includes(pid)) ? 1 : 0
    },
  },
  {
    kind: 'queue:freeze',
    target: 'queue',
    weight: 1,
    async strike(strike) {
      await strike.arena.queue.freeze()
      await strike.rest(50, 600)
      await strike.arena.queue.thaw()
      return 1
    },
  },
  {
    kind: 'queue:clients-killed',
    target: 'queue',
    weight: 1,
    strike: (strike) => strike.arena.killQueueClients(),
  },
]
