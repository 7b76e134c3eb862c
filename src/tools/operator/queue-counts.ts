/** How many jobs of each queue wait, run, failed and are done, as BullMQ's own keys say. */
import { added } from '../../added.ts'
import { messageOf } from '../../message-of.ts'
import { luaText, defineScript } from '../../lua.ts'
import { ASLEEP } from '../../line/line-runner.ts'
import type { Places, QueuePlace } from './places.ts'

export interface QueueCounts {
  readonly queue: string
  /** Jobs that a free worker would start, and jobs that sleep in a line. */
  readonly waiting: number
  /** Jobs with a delay or a backoff. */
  readonly delayed: number
  readonly active: number
  /** As far as they are kept. */
  readonly failed: number
  /** As far as they are kept. */
  readonly done: number
  /** Why there may be more: what a node that is away said. */
  readonly missing?: string
}

const countsScript = defineScript('counts', luaText('tools/operator/lua/counts'))
const NONE = { waiting: 0, delayed: 0, active: 0, failed: 0, done: 0 }
const KEYS = ['wait', 'paused', 'prioritized', 'delayed', 'active', 'failed', 'completed'] as const

/** @throws Error where the server does not answer at all. */
export async function countJobs(places: Places): Promise<readonly QueueCounts[]> {
  const names = await places.shownNames()
  const rows = (await Promise.all(names.map((queue) => countsOf(places, queue)))).flat()
  const [first] = rows
  const isAway = places.missingNames === undefined && rows.every(({ missing }) => missing)
  if (first?.missing !== undefined && isAway) throw new Error(first.missing)
  return summed(rows)
}

/** Of each shard. */
async function countsOf(places: Places, queue: string): Promise<readonly QueueCounts[]> {
  const missing = (error: unknown): QueueCounts => {
    return { queue, ...NONE, missing: messageOf(error) }
  }
  const count = async ({ base }: QueuePlace): Promise<QueueCounts> => {
    const keys = KEYS.map((key) => base + key)
    const reply = await places.server.run(countsScript, keys, [ASLEEP])
    const [waiting, delayed, active, failed, done] = reply as Five
    return { queue, waiting, delayed, active, failed, done }
  }
  return places.of(queue).then(
    (shards) => Promise.all(shards.map((place) => count(place).catch(missing))),
    (error: unknown) => [missing(error)],
  )
}

type Five = [number, number, number, number, number]

/** One row for each queue: the numbers of its shards are added. */
export function summed<Row extends { readonly queue: string }>(
  rows: readonly Row[],
): readonly Row[] {
  const queues = [...new Set(rows.map(({ queue }) => queue))]
  return queues.map((queue) => added(rows.filter((row) => row.queue === queue)))
}
