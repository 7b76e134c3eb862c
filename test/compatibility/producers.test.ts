/** Producers that die, at any moment: what they have added runs, once, and soon. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { sameAlone, useSides } from './differential.ts'
import type { ProducerSetup } from './producer-child.ts'
import { pause, range, type Side } from './side.ts'
import { nodeArgs } from '../support/programs.ts'

useSides()

const CHILD = join(import.meta.dirname, 'producer-child.ts')
const KILLS = 2
/** All that the killed producers left behind runs within this time. */
const SOON_MS = 3_000

/** Several producers at once, each killed a few milliseconds after its first jobs were added. */
async function killedProducers(side: Side, bulk: boolean): Promise<object> {
  side.worker()
  const queue = side.plainQueue()
  await Promise.all(
    range(1, KILLS).map(async (number) => {
      const setup: ProducerSetup = {
        isOurs: side.isOurs,
        bulk,
        queueName: side.queueName,
        connection: side.connection,
        namespace: side.redlock.namespace,
        from: number * 1_000,
      }
      const child = spawn(process.execPath, [...nodeArgs(CHILD), JSON.stringify(setup)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const exited = new Promise((resolve) => child.once('exit', resolve))
      await new Promise((resolve) => child.stdout.once('data', resolve))
      await pause(number * 4)
      child.kill('SIGKILL')
      await exited
    }),
  )
  const left = async (): Promise<number> => (await queue.count()) + (await queue.getActiveCount())
  await side.until('all that was added has run', async () => (await left()) === 0, SOON_MS)
  const total = await queue.getCompletedCount()
  return {
    someWereAdded: total > 0,
    everyOneRan: new Set(side.order).size === total,
    twice: side.order.length - new Set(side.order).size,
    overlaps: side.overlaps,
  }
}

const ALL_RAN = { someWereAdded: true, everyOneRan: true, twice: 0, overlaps: 0 }

sameAlone(
  'producers that are killed while they add: every job that exists runs, once',
  async (side) => ({ ...(await killedProducers(side, false)) }),
  ALL_RAN,
)

sameAlone(
  'producers that are killed while they addBulk: every job that exists runs, once',
  async (side) => ({ ...(await killedProducers(side, true)) }),
  ALL_RAN,
)
