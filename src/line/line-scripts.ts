/**
 * The scripts by which lines move, each in the trip that BullMQ makes anyway: a job and its place
 * are added together; a finished job leaves, wakes the next and fetches; look and park are one.
 */
import { bullmqScripts, composedScript } from './bullmq/composed-script.ts'
import type { ComposedScript, Composition } from './bullmq/composed-script.ts'
import type { Arguments } from './line-runner.ts'

/** What takes the place of a script of BullMQ. */
export interface Replacement {
  readonly name: string
  readonly script: ComposedScript
  /** The number of BullMQ's keys, which come first. */
  readonly keys: number
  readonly ours?: Arguments | undefined
}

/** Commands by which BullMQ moves jobs, of which `joining` sees some. */
const MOVES = [
  ...['LPUSH', 'RPUSH', 'ZADD', 'RPOPLPUSH'],
  ...['HMSET', 'HSET', 'HINCRBY', 'HGETALL', 'ZRANGEBYSCORE'],
]
/** What the add script sees. */
const ADDING = ['LPUSH', 'RPUSH', 'ZADD', 'HMSET', 'ZREM', 'ZSCORE', 'DEL']

/** What a script that removes jobs sees. */
const REMOVING = [
  ...['DEL', 'LRANGE', 'LREM', 'LSET', 'LTRIM'],
  ...['ZRANGE', 'ZRANGEBYSCORE', 'ZREM', 'ZSCORE'],
]

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
  // rule: resumed-queue-looks-for-ready-jobs
  pause: { isAsleep: true },
  // rule: changed-delay-by-the-clock-of-the-server
  changeDelay: { isAsleep: true, time: 2 },
  moveJobFromActiveToWait: { ran: 3 },
  // They look for the locks of jobs, with the absent key: those that are elsewhere would be lost.
  extendLocks: {},
}

/** BullMQ's scripts that remove jobs: see `lua/remove.lua`. */
const REMOVES: Readonly<Record<string, Arguments>> = {
  removeJob: { isAsleep: true },
  drain: { isAsleep: true },
  cleanJobsInSet: { isAsleep: true },
  addJobScheduler: { time: 7 },
  updateJobScheduler: { time: 5 },
  removeJobScheduler: { isAsleep: true },
  removeUnprocessedChildren: {},
}

let scripts: Map<string, Replacement> | undefined

/** By the name of BullMQ's script; `finish` of jobs that end together, `cancel` from outside. */
export function lineScripts(): ReadonlyMap<string, Replacement> {
  if (scripts !== undefined) return scripts
  const all = new Map<string, Replacement>()
  const replace = (
    names: readonly string[],
    file: string,
    { ours, as, ...how }: Composition & { readonly ours?: Arguments; readonly as?: string } = {},
  ): void => {
    const script = composedScript(`line/lua/${file}`, names, how)
    for (const name of names) {
      const keys = bullmqScripts().get(name)?.numberOfKeys ?? 0
      all.set(as ?? name, { name, script, keys, ours })
    }
  }
  replace(ADDS, 'add', { watched: ADDING, usual: ADDS_CALL })
  replace(FETCHES, 'fetch', { watched: MOVES })
  replace(['moveToFinished'], 'finish', { as: 'finish', watched: MOVES, usual: ENDS_CALL })
  replace(['moveToFinished'], 'cancel', { as: 'cancel' })
  replace(['moveToWaitingChildren'], 'wait-for-children')
  // As `extendLocks`.
  replace(['moveStalledJobsToWait'], 'stalled')
  replace(['promote'], 'promote')
  replace(['reprocessJob'], 'promote')
  replace(['changePriority'], 'change-priority')
  replace(['obliterate'], 'obliterate')
  for (const [name, ours] of Object.entries(AROUND)) replace([name], 'around', { ours })
  for (const [name, ours] of Object.entries(REMOVES)) {
    replace([name], 'remove', { watched: REMOVING, ours })
  }
  return (scripts = all)
}
