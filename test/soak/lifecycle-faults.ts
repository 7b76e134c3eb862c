/** What operators and dying producers do to jobs that wait and run. */
import { once } from 'node:events'
import type { Fault, Strike } from './fault.ts'
import type { MastersWorld } from './masters-world.ts'
import { patiently, type ScratchQueue } from './scratch-queue.ts'
import { forkProgram } from '../support/programs.ts'

const ADDED = 20
const MAX_REMOVED = 8
const CLEANED = ['wait', 'wait', 'delayed', 'active', 'completed'] as const
const PRODUCER_LIMIT_MS = 15_000

/** Does it to jobs that were just added; counted by the jobs that are gone afterwards. */
function lifecycle(
  kind: string,
  weight: number,
  act: (queue: ScratchQueue, strike: Strike<MastersWorld>) => Promise<unknown>,
): Fault<MastersWorld> {
  return {
    kind,
    target: 'jobs',
    weight,
    async strike(strike) {
      const { scratch } = strike.world
      await scratch.look()
      const before = scratch.gone
      await scratch.add(ADDED)
      await act(scratch, strike)
      await scratch.look()
      return scratch.gone - before
    },
  }
}

export const lifecycleFaults: readonly Fault<MastersWorld>[] = [
  lifecycle('jobs:remove', 6, async (scratch, { random }) => {
    const jobs = [...(await scratch.undone())]
    for (let removed = 0; removed < MAX_REMOVED && jobs.length > 0; removed++) {
      const [job] = jobs.splice(random.integer(0, jobs.length - 1), 1)
      // A job that runs refuses to be removed.
      await scratch.locked.remove(job?.id ?? '').catch(() => 0)
    }
  }),
  lifecycle('jobs:drain', 2, async (scratch) => {
    await patiently(() => scratch.locked.drain())
  }),
  lifecycle('jobs:drain-delayed', 2, async (scratch) => {
    await patiently(() => scratch.locked.drain(true))
  }),
  lifecycle('jobs:clean', 3, async (scratch, { random }) => {
    const state = CLEANED[random.integer(0, CLEANED.length - 1)] ?? 'wait'
    await patiently(() => scratch.locked.clean(0, random.integer(1, 20), state))
  }),
  lifecycle('jobs:obliterate', 2, async (scratch) => {
    await patiently(() => scratch.locked.obliterate({ force: true }))
  }),
  {
    kind: 'producer:kill',
    target: 'jobs',
    weight: 3,
    async strike({ world, random }) {
      const setup = JSON.stringify(world.producerSetup(random.chance(0.5) ? 1 : 10))
      const producer = forkProgram(new URL('producer-child.ts', import.meta.url), [setup], {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      })
      const exited = once(producer, 'exit')
      const signal = AbortSignal.timeout(PRODUCER_LIMIT_MS)
      await once(producer, 'message', { signal }).catch(() => undefined) // Killed while it starts.
      producer.send('go')
      await new Promise((resolve) => setTimeout(resolve, random.between(2, 60)))
      const struck = producer.kill('SIGKILL')
      await exited
      await world.scratch.look()
      return struck ? 1 : 0
    },
  },
]
