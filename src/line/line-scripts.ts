/**
 * The scripts by which lines move, each in the trip that BullMQ makes anyway: a job and its place
 * are added together; a finished job leaves, wakes the next and fetches; look and park are one.
 */
import { composedScript, type ComposedScript } from './bullmq/composed-script.ts'

export interface LineScripts {
  /** By the name of BullMQ's script whose place they take. */
  readonly composed: ReadonlyMap<string, ComposedScript>
  readonly park: ComposedScript
  /** Takes the place of `cleanJobsInSet` for jobs that wait. */
  readonly cleanWaiting: ComposedScript
  /** Takes the place of `moveToActive` for the jobs of a batch. */
  readonly take: ComposedScript
  /** Takes the place of `moveToFinished`, for the jobs that end together. */
  readonly finish: ComposedScript
}

/** Commands by which BullMQ moves jobs, of which `joining` sees some. */
const MOVES = ['LPUSH', 'RPUSH', 'ZADD', 'RPOPLPUSH', 'HMSET', 'HSET', 'HGETALL']
/** What the add script sees. */
const ADDING = ['LPUSH', 'RPUSH', 'ZADD', 'HMSET', 'ZREM', 'ZSCORE']

const ADDS = ['addStandardJob', 'addPrioritizedJob', 'addDelayedJob', 'addParentJob']

/** BullMQ's scripts that show or move sleeping jobs, and must take them for waiting ones. */
const VIEWED = [
  ...['getCounts', 'getCountsPerPriority', 'getJobs', 'getRanges', 'getState', 'getStateV2'],
  ...['changeDelay', 'moveJobsToWait'],
]

let scripts: LineScripts | undefined

export function lineScripts(): LineScripts {
  scripts ??= defineAll()
  return scripts
}

function defineAll(): LineScripts {
  const composed = [
    ...ADDS.map((name) => composedScript(name, 'add', { watched: ADDING, replaced: [] })),
    composedScript('promote', 'promote'),
    composedScript('moveToFinished', 'cancel'),
    composedScript('obliterate', 'obliterate'),
    composedScript('moveToActive', 'fetch', { watched: MOVES }),
    composedScript('moveToDelayed', 'fetch', { watched: MOVES }),
    composedScript('removeJob', 'remove', { watched: ['XADD'] }),
    composedScript('moveToWaitingChildren', 'wait-for-children'),
    composedScript('changePriority', 'change-priority'),
    composedScript('drain', 'remove-waiting'),
    composedScript('cleanJobsInSet', 'clean'),
    ...VIEWED.map((name) => composedScript(name, 'view')),
  ]
  return {
    composed: new Map(composed.map((script) => [script.replaces, script])),
    cleanWaiting: composedScript('cleanJobsInSet', 'remove-waiting', { variant: ':waiting' }),
    park: composedScript('moveToDelayed', 'park', { variant: ':park' }),
    take: composedScript('moveToActive', 'take', {
      variant: ':take',
      watched: MOVES,
      replaced: [],
    }),
    finish: composedScript('moveToFinished', 'finish', {
      variant: ':together',
      watched: MOVES,
      replaced: ['fetchNextJob', 'trimEvents'],
    }),
  }
}
