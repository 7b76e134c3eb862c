/**
 * The scripts by which lines move, each in the trip that BullMQ makes anyway: a job and its place
 * are added together; a finished job leaves, wakes the next and fetches; look and park are one.
 */
import { composedScript, type ComposedScript } from './bullmq/composed-script.ts'

export interface LineScripts {
  /** By the name of BullMQ's script whose place they take. */
  readonly composed: ReadonlyMap<string, ComposedScript>
  /** Takes the place of `cleanJobsInSet` for jobs that wait. */
  readonly cleanWaiting: ComposedScript
  /** Takes the place of `moveToFinished`, for a job that is cancelled from outside. */
  readonly cancel: ComposedScript
  /** Takes the place of `moveToFinished`, for the jobs that end together. */
  readonly finish: ComposedScript
}

/** Commands by which BullMQ moves jobs, of which `joining` sees some. */
const MOVES = [
  ...['LPUSH', 'RPUSH', 'ZADD', 'RPOPLPUSH'],
  ...['HMSET', 'HSET', 'HINCRBY', 'HGETALL', 'ZRANGEBYSCORE'],
]
/** What the add script sees. */
const ADDING = ['LPUSH', 'RPUSH', 'ZADD', 'HMSET', 'ZREM', 'ZSCORE', 'DEL']

/** What most jobs call when they are added. A name that is missing costs time. */
export const ADDS_CALL: readonly string[] = [
  ...['addBaseMarkerIfNeeded', 'addJobInTargetList', 'deduplicateJob', 'storeJob'],
]
/** The same of jobs that end. */
const ENDS_CALL = [
  ...['addBaseMarkerIfNeeded', 'removeJobKeys', 'removeLock'],
  ...['removeDeduplicationKeyIfNeededOnFinalization', 'updateJobFields'],
]

export const ADDS: readonly string[] = [
  'addStandardJob',
  'addPrioritizedJob',
  'addDelayedJob',
  'addParentJob',
]

/** Scripts by which a worker is given a job, or gives one back. */
export const FETCHES: readonly string[] = ['moveToActive', 'moveToDelayed']

/** BullMQ's scripts that show or move sleeping jobs, and must take them for waiting ones. */
const VIEWED = [
  ...['getCounts', 'getCountsPerPriority', 'getJobs', 'getRanges', 'getState', 'getStateV2'],
  'moveJobsToWait',
]

/** BullMQ's scripts by which a user starts a job that is delayed or finished. */
const STARTS = ['promote', 'reprocessJob']

/** BullMQ's scripts that delete the job of a scheduler, or the children of a parent. */
const REMOVING = ['removeJobScheduler', 'removeUnprocessedChildren']

/** BullMQ's scripts that look for locks: those that are elsewhere would be lost. */
const OF_LOCKS = ['extendLocks', 'moveStalledJobsToWait']

/** BullMQ's scripts that say when the next job of a scheduler is due. */
const SCHEDULES = ['addJobScheduler', 'updateJobScheduler']

let scripts: LineScripts | undefined

export function lineScripts(): LineScripts {
  scripts ??= defineAll()
  return scripts
}

function defineAll(): LineScripts {
  const composed = [
    composedScript(ADDS, 'add', { watched: ADDING, usual: ADDS_CALL }),
    composedScript(FETCHES, 'fetch', { watched: MOVES }),
    composedScript(['retryJob'], 'retry', { watched: MOVES }),
    ...STARTS.map((name) => composedScript([name], 'promote')),
    composedScript(['obliterate'], 'obliterate'),
    composedScript(['removeJob'], 'remove', { watched: ['XADD', 'DEL'] }),
    composedScript(['moveToWaitingChildren'], 'wait-for-children'),
    composedScript(['changeDelay'], 'change-delay'),
    ...SCHEDULES.map((name) => composedScript([name], 'schedule')),
    composedScript(['changePriority'], 'change-priority'),
    composedScript(['drain'], 'remove-waiting'),
    composedScript(['cleanJobsInSet'], 'clean'),
    ...REMOVING.map((name) => composedScript([name], 'remove-others')),
    ...OF_LOCKS.map((name) => composedScript([name], 'of-locks')),
    ...VIEWED.map((name) => composedScript([name], 'view')),
  ]
  return {
    composed: new Map(
      composed.flatMap((script) => script.replaces.map((name) => [name, script] as const)),
    ),
    cleanWaiting: composedScript(['cleanJobsInSet'], 'remove-waiting', { variant: ':waiting' }),
    cancel: composedScript(['moveToFinished'], 'cancel'),
    finish: composedScript(['moveToFinished'], 'finish', {
      variant: ':together',
      watched: MOVES,
      usual: ENDS_CALL,
    }),
  }
}
