/** How the queues of an episode are opened, and what is asked of them when nothing runs. */
import type { Job, Queue } from 'bullmq'
import type { Redis } from 'ioredis'
import { LockedQueue, ShardedQueue } from '../../src/index.ts'
import type { Census, StoredJob } from './history.ts'
import type { JobData, Plan } from './plan.ts'
import type { QueueAddress } from './servers.ts'
import { machineMs } from './seen.ts'

/** What PTTL says of a key without an end. */
const LASTS = -1
const STATES = [
  ...['active', 'waiting', 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed'],
] as const
export const UNFINISHED: readonly (typeof STATES)[number][] = STATES.slice(0, 5)

/** @param resources what the names of resources begin with. */
export function openQueue(
  name: string,
  { settings }: Plan,
  resources: string,
  connection: QueueAddress,
): LockedQueue<JobData> {
  const { slots, slotsByJob, within, maxWaitMs, maxLength, whenFull, rate, prefix } = settings
  const first = `${resources}r0`
  const options = {
    ...{ connection, prefix, within, resource: (data: JobData) => data.resources },
    ...(settings.defaultJobOptions && {
      defaultJobOptions: { keepLogs: 2, stackTraceLimit: 1, sizeLimit: 100_000 },
    }),
    ...(slotsByJob
      ? {
          slots: ({ resources: names }: JobData) =>
            names.length === 1 && names[0] === first ? slots : { [first]: slots },
        }
      : slots > 1 && { slots }),
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(maxLength !== undefined && { maxLength, whenFull }),
    ...(rate !== undefined && {
      rate: ({ weight }: JobData) => ({
        ...rate,
        ...(settings.costs && weight > 1 && { cost: 2 }),
      }),
    }),
    ...(settings.tenant && { tenant: ({ tenant }: JobData) => tenant }),
    ...(settings.weight && { weight: ({ weight }: JobData) => weight }),
  }
  const { shards } = settings
  return shards === undefined
    ? new LockedQueue<JobData>(name, options)
    : new ShardedQueue<JobData>(name, { ...options, shards })
}

export async function unfinishedIn(queue: Queue): Promise<number> {
  const counts = await queue.getJobCounts(...UNFINISHED)
  return Object.values(counts).reduce((sum, each) => sum + each)
}

export async function censusOf(queue: Queue<JobData>, isQuiet: boolean): Promise<Census> {
  const at = machineMs()
  const counts = await queue.getJobCounts(...STATES)
  const lists = await Promise.all(STATES.map((state) => queue.getJobs([state])))
  const listed = new Map<string, number>()
  const jobs: StoredJob[] = []
  for (const [index, list] of lists.entries()) {
    for (const job of list as (Job<JobData> | undefined)[]) {
      if (job === undefined) continue
      const { id = '', data, timestamp, attemptsMade, failedReason } = job
      listed.set(id, (listed.get(id) ?? 0) + 1)
      jobs.push({
        ...{ id, timestamp, attemptsMade, uid: data.uid, state: STATES[index] ?? '' },
        ...{ failedReason, returnvalue: job.returnvalue as unknown },
      })
    }
  }
  return { at, isQuiet, counts, jobs, listed }
}

/** Keys of lines with members. Deadlines go when their time comes. */
export async function linesLeft(
  redis: Redis,
  bases: readonly string[],
): Promise<readonly string[]> {
  const found: string[] = []
  for (const key of await keysOf(redis, bases, 'redlock:::*')) {
    const name = key.slice(key.indexOf('redlock:::') + 'redlock:::'.length)
    if (!/^(line:|ready)/.test(name)) continue
    const members = await redis.zrange(key, '0', '4')
    const places = members.filter((member) => member !== '!limits')
    if (places.length > 0) found.push(`${name}: ${places.join(', ')}`)
  }
  return found
}

/** @returns keys that are left behind without an end. */
export async function obliterate(
  queue: Queue,
  redis: Redis,
  bases: readonly string[],
): Promise<readonly string[]> {
  await queue.obliterate({ force: true })
  const lasting: string[] = []
  for (const key of await keysOf(redis, bases, '*')) {
    // A producer that is open may compare its settings once more.
    if (key.endsWith(':redlock:::settings')) continue
    if ((await redis.pttl(key)) === LASTS) lasting.push(key)
  }
  return lasting
}

async function keysOf(
  redis: Redis,
  bases: readonly string[],
  pattern: string,
): Promise<readonly string[]> {
  const found = await Promise.all(bases.map((base) => redis.keys(base + pattern)))
  return found.flat()
}
