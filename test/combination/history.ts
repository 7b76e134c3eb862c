/** All that was seen of one episode, for the oracle. */
import type { Operation, Plan } from './plan.ts'
import type { Ended, Seen, Started, Stopped } from './seen.ts'

/** An operation, and what came of it. */
export interface Done {
  readonly operation: Operation
  readonly index: number
  readonly at: number
  endedAt?: number
  answer?: unknown
  error?: string
}

/** One call of a processor. */
export interface Run extends Started {
  ended?: Ended
  stopped?: Stopped
  /** When its worker was killed. */
  killedAt?: number
  /** When a step ended that it did not wait for. */
  workedUntil?: number
  readonly steps: { readonly step: string; readonly at: number; value?: string }[]
}

/** A Redlock that was taken outside of jobs. */
export interface Held {
  readonly resources: readonly string[]
  readonly at: number
  until: number
  readonly fencingToken: number
  trustedUntil: number
}

/** A job as the queue's Redis has it. */
export interface StoredJob {
  readonly id: string
  readonly timestamp: number
  readonly uid: string
  readonly state: string
  readonly attemptsMade: number
  readonly failedReason: string | undefined
  readonly returnvalue: unknown
}

/** Taken while nothing runs and nothing moves. */
export interface Census {
  readonly at: number
  readonly isQuiet: boolean
  readonly counts: Readonly<Record<string, number>>
  readonly jobs: readonly StoredJob[]
  /** In how many lists a job is. */
  readonly listed: ReadonlyMap<string, number>
}

export interface History {
  readonly plan: Plan
  /** Before each resource of the plan. */
  readonly prefix: string
  readonly startedAt: number
  readonly done: Done[]
  readonly runs: Map<string, Run>
  readonly seen: Seen[]
  readonly held: Held[]
  readonly censuses: Census[]
  /** What was wrong in the lines while jobs ran. */
  readonly audits: { readonly at: number; readonly detail: string }[]
  /** Resources with a rate. */
  readonly rated: Set<string>
  /** Runs of parents of flows, in a plain queue. */
  readonly parents: { readonly uid: string; readonly at: number }[]
  /** Schedulers without a next job, before all was put right. */
  idleSchedulers: readonly string[]
  /** Ids of jobs by their names in the plan. */
  readonly ids: Map<string, string>
  /** Why it could not be brought to its end. */
  failure?: string
  /** Workers that did not close in time. */
  readonly unclosed: string[]
  /** When all was put right, and until when jobs had time. */
  settlingAt: number
  settledAt: number
  unsettled: readonly string[]
  final: Census | undefined
  /** Keys of lines with members, of a queue without unfinished jobs. */
  lines: readonly string[]
  leases: readonly string[]
  leftAfterObliterate: readonly string[]
  /** Of the second queue. */
  beside?: History
  /** The longest time for which the process stood still. */
  lagMs: number
}

export function newHistory(plan: Plan, prefix: string, startedAt: number): History {
  return {
    ...{
      plan,
      prefix,
      startedAt,
      done: [],
      runs: new Map(),
      seen: [],
      held: [],
      censuses: [],
      audits: [],
    },
    ...{ rated: new Set(), parents: [], idleSchedulers: [], ids: new Map(), unclosed: [] },
    ...{ settlingAt: 0, settledAt: 0, unsettled: [] },
    ...{ final: undefined, lines: [], leases: [], leftAfterObliterate: [], lagMs: 0 },
  }
}

export function record(history: History, event: Seen): void {
  history.seen.push(event)
  const { runs } = history
  if (event.kind === 'started') runs.set(event.run, { ...event, steps: [] })
  const run = 'run' in event ? runs.get(event.run) : undefined
  if (run === undefined) return
  if (event.kind === 'step') run.steps.push({ ...event })
  else if (event.kind === 'stepValue') {
    const step = run.steps.find((each) => each.step === event.step)
    if (step !== undefined) step.value = event.of
    else run.steps.push({ step: event.step, at: NaN, value: event.of })
  } else if (event.kind === 'ended') run.ended = event
  else if (event.kind === 'forgotten') run.workedUntil = event.at
  else if (event.kind === 'stopped') run.stopped = event
}
