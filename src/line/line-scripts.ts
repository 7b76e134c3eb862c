/**
 * The scripts by which lines move, each in the trip that BullMQ makes anyway: a job and its place
 * are added together; a finished job leaves, wakes the next and fetches; look and park are one.
 */
import { bullmqScripts, composedScript, type ComposedScript } from './bullmq/composed-script.ts'
import type { Arguments } from './line-runner.ts'

/** What takes the place of a script of BullMQ. */
export interface Replacement {
  readonly name: string
  readonly script: ComposedScript
  /** The number of BullMQ's keys, which come first. */
  readonly keys: number
  /** What ours takes from BullMQ's arguments. */
  readonly told: ((argv: readonly unknown[]) => Arguments) | undefined
}

/** Commands by which BullMQ moves jobs, of which `joining` sees some. */
const MOVES = [
  ...['LPUSH', 'RPUSH', 'ZADD', 'RPOPLPUSH'],
  ...['HMSET', 'HSET', 'HINCRBY', 'HGETALL', 'ZRANGEBYSCORE'],
]
/** What the add script sees. */
const ADDING = ['LPUSH', 'RPUSH', 'ZADD', 'HMSET', 'ZREM', 'ZSCORE', 'DEL']

/** What a script that removes many jobs sees. */
const REMOVING = ['DEL', 'LRANGE', 'LSET', 'LTRIM', 'ZRANGE', 'ZRANGEBYSCORE', 'ZREM']

/** What most jobs call when they are added. A name that is missing costs time. */
export const ADDS_CALL: readonly string[] = [
  ...['addBaseMarkerIfNeeded', 'addJobInTargetList', 'deduplicateJob', 'storeJob'],
]
/** The same of jobs that end. */
const ENDS_CALL = [
  ...['addBaseMarkerIfNeeded', 'removeLock'],
  ...['removeDeduplicationKeyIfNeededOnFinalization', 'updateJobFields'],
]

export const ADDS: readonly string[] = [
  ...['addStandardJob', 'addPrioritizedJob', 'addDelayedJob', 'addParentJob'],
]
/** Scripts by which a worker is given a job, or gives one back. */
export const FETCHES: readonly string[] = ['moveToActive', 'moveToDelayed', 'retryJob']

/** BullMQ's scripts that need no more than another view of a queue: see `lua/around.lua`. */
const AROUND: Readonly<Record<string, Arguments>> = {
  getCounts: { isAsleep: true },
  getCountsPerPriority: { isAsleep: true },
  getJobs: { isAsleep: true },
  getRanges: { isAsleep: true },
  getState: { isAsleep: true },
  getStateV2: { isAsleep: true },
  moveJobsToWait: { isAsleep: true },
  // rule: changed-delay-by-the-clock-of-the-server
  changeDelay: { isAsleep: true, time: 2 },
  addJobScheduler: { removes: true, time: 7 },
  updateJobScheduler: { removes: true, time: 5 },
  removeJobScheduler: { removes: true },
  removeUnprocessedChildren: { removes: true },
  // They look for the locks of jobs, with the absent key: those that are elsewhere would be lost.
  extendLocks: {},
}

let scripts: ReadonlyMap<string, Replacement> | undefined

/** By the name of BullMQ's script; `finish` of jobs that end together, `cancel` from outside. */
export function lineScripts(): ReadonlyMap<string, Replacement> {
  return (scripts ??= defineAll())
}

function defineAll(): ReadonlyMap<string, Replacement> {
  const add = composedScript(ADDS, 'add', { watched: ADDING, usual: ADDS_CALL })
  const fetch = composedScript(FETCHES, 'fetch', { watched: MOVES })
  const own = (name: string, file = name): ComposedScript => composedScript([name], file)
  const remove = composedScript(['removeJob'], 'remove', { watched: ['XADD', 'DEL'] })
  const wait = own('moveToWaitingChildren', 'wait-for-children')
  const finishes = { watched: MOVES, usual: ENDS_CALL }
  const finish = composedScript(['moveToFinished'], 'finish', finishes)
  const replaced = [
    ...ADDS.map((name) => replacement(name, add)),
    replacement('moveToActive', fetch),
    replacement('retryJob', fetch),
    replacement('moveToDelayed', fetch, () => ({ does: 'delay' })),
    ...Object.entries(AROUND).map(([name, told]) =>
      replacement(name, own(name, 'around'), () => told),
    ),
    replacement('promote', own('promote'), ([, id]) => ({ id })),
    replacement('reprocessJob', own('reprocessJob', 'promote'), ([id]) => ({ id })),
    replacement('obliterate', own('obliterate')),
    // As `extendLocks`.
    replacement('moveStalledJobsToWait', own('moveStalledJobsToWait', 'stalled'), () => ({})),
    replacement('removeJob', remove, ([id]) => ({ id })),
    replacement('moveToWaitingChildren', wait, ([, , , id]) => ({ id })),
    replacement('changePriority', own('changePriority', 'change-priority'), (argv) => {
      return { id: argv[2], priority: argv[0], lifo: argv[3] === 1 }
    }),
    ...['drain', 'cleanJobsInSet'].map((name) =>
      replacement(name, composedScript([name], 'around', { watched: REMOVING }), () => {
        return { isAsleep: true, removes: true }
      }),
    ),
  ]
  return new Map([
    ...replaced.map((each) => [each.name, each] as const),
    ['cancel', replacement('moveToFinished', own('moveToFinished', 'cancel'))],
    ['finish', replacement('moveToFinished', finish)],
  ])
}

function replacement(
  name: string,
  script: ComposedScript,
  told?: Replacement['told'],
): Replacement {
  return { name, script, keys: bullmqScripts().get(name)?.numberOfKeys ?? 0, told }
}
