/**
 * What the product is known to do wrong, until it is mended. A violation that one of these explains
 * is counted, and fails nothing. An entry goes with the fault.
 */
import type { History } from './history.ts'
import type { Violation } from './oracle.ts'
import type { Action } from './plan.ts'

export interface KnownFault {
  readonly what: string
  readonly rules: readonly string[]
  readonly explains: (history: History) => boolean
}

const does = ({ plan }: History, ...kinds: readonly Action['do'][]): boolean =>
  plan.operations.some((operation) => kinds.includes(operation.do))

const addsPlain = ({ plan }: History): boolean =>
  plan.operations.some((operation) => 'by' in operation && operation.by === 'plain')

export const KNOWN_FAULTS: readonly KnownFault[] = [
  {
    what: 'A result is shared under one lease: with slots, or one key over resources, jobs fail.',
    rules: ['jobs end as they must', 'computed once', 'no job is lost', 'no lease is lost'],
    explains: (history) => {
      const { dedupe, slots } = history.plan.settings
      return dedupe !== undefined && (dedupe.byKey || slots > 1 || does(history, 'setSlots'))
    },
  },
  {
    what: 'With `fresh`, a job without a place takes a result from before it was added.',
    rules: ['results are of the job'],
    explains: (history) =>
      history.plan.settings.dedupe?.fresh === true &&
      (addsPlain(history) ||
        history.plan.features.includes('deduplication') ||
        does(history, 'flow', 'scheduler', 'leaveLines', 'obliterate')),
  },
  {
    what: 'Checkpoints are kept by the id of a job, and ids are used again.',
    rules: ['steps are of the job'],
    explains: ({ plan }) => plan.settings.checkpoints,
  },
  {
    what: 'A worker whose clock is wrong delays jobs by its clock for all others.',
    rules: ['nothing is stuck', 'order of a line'],
    explains: (history) => does(history, 'stepClock'),
  },
  {
    what: 'A worker that drains starts one more job.',
    rules: ['a worker that drains starts nothing'],
    explains: (history) => does(history, 'drainWorker'),
  },
  {
    what: 'Of two calls at once that cancel one job, one says that it is missing.',
    rules: ['a cancelled job does not run'],
    explains: ({ plan }) =>
      plan.operations.filter((operation) => /^cancel/.test(operation.do)).length > 1,
  },
  {
    what: 'A failed job that holds its line is removed by `removeOnFail`, and the line goes on.',
    rules: ['a line that is held starts nothing'],
    explains: ({ plan }) => plan.settings.removeOnFail !== undefined,
  },
  {
    what: 'After `drain` and `obliterate` the hash of a job of a scheduler may be left.',
    rules: ['nothing is left'],
    explains: (history) => does(history, 'scheduler') && does(history, 'drainQueue'),
  },
  {
    what: 'After `rateLimit`, the next run of the job may be told that its BullMQ lock is lost.',
    rules: ['no lease is lost', 'jobs end as they must', 'attempts count failures'],
    explains: (history) => history.plan.features.includes('rate limit in a job'),
  },
  {
    what: 'To cancel the first job of a batch stops all of them.',
    rules: ['jobs end as they must'],
    explains: (history) =>
      history.plan.settings.batch !== undefined &&
      does(history, 'cancel', 'cancelLine', 'cancelHere'),
  },
]

export function isKnown(history: History, { rule }: Violation): KnownFault | undefined {
  return KNOWN_FAULTS.find(({ rules, explains }) => rules.includes(rule) && explains(history))
}
