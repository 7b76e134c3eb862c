/**
 * What an operator does from the page: as the commands of the same names. Each is checked, done,
 * and logged with who did it.
 */
import { counted } from '../../counted.ts'
import { systemClock } from '../../clock.ts'
import { Log } from '../../log.ts'
import type { Logger } from '../../logger.ts'
import { messageOf } from '../../message-of.ts'
import { redacted } from '../../redact.ts'
import type { FleetProbe } from '../operator/fleet-probe.ts'
import { forceRelease, holderLine } from '../operator/resource-view.ts'
import { isCancelled, type Acted, type QueueView } from '../operator/queue-view.ts'
import { NO_QUEUE } from './snapshots.ts'

export interface Done {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly who: string
  /** As a command line says it: `retry invoices 7`. */
  readonly what: string
  readonly ok: boolean
  readonly outcome: string
}

const TEXTS = ['action', 'queue', 'jobId', 'resource', 'reason'] as const
/**
 * 0 `slots` or `limit` for those of the options, NaN for what is no number. `limit` is how many may
 * start in `perMs`.
 */
const NUMBERS = ['slots', 'limit', 'perMs'] as const

/** What the page asks for; '' and NaN for what is not said. */
export type Wanted = Readonly<
  Record<(typeof TEXTS)[number], string> & Record<(typeof NUMBERS)[number], number>
>

export interface Hands {
  readonly queue: QueueView | undefined
  /** Undefined for a lock service that is not a fleet. */
  readonly fleet: FleetProbe | undefined
  /** As clients have it. */
  readonly maxLeaseMs: number | undefined
}

interface Action {
  readonly on: readonly ('queue' | 'jobId' | 'resource')[]
  /** What it sets, for the log. */
  readonly to?: (wanted: Wanted) => string
  readonly act: (
    wanted: Wanted,
    hands: Hands & { readonly who: string },
  ) => Promise<Pick<Acted, 'isDone' | 'told'>>
}

/** How long a cancelled job that runs may take to end, before the page says that it still runs. */
const CANCEL_WAIT_MS = 2_000
const MAX_TEXT = 512
const MAX_DONE = 10

const ACTIONS: Readonly<Record<string, Action>> = {
  retry: {
    on: ['queue', 'jobId'],
    act: async ({ queue, jobId }, hands) => queueOf(hands).retry(queue, jobId),
  },
  skip: {
    on: ['queue', 'jobId'],
    act: async ({ queue, jobId }, hands) => queueOf(hands).skip(queue, jobId),
  },
  cancel: {
    on: ['queue', 'jobId'],
    act: async ({ queue, jobId, reason }, hands) => {
      const options = { timeoutMs: CANCEL_WAIT_MS, reason: reason || `cancelled by ${hands.who}` }
      const [found] = await queueOf(hands).cancel(queue, jobId, options)
      const { outcome } = found ?? { outcome: 'missing' }
      return { isDone: isCancelled({ outcome }), told: `Job ${jobId}: ${outcome}.` }
    },
  },
  pause: limiting(
    (limits, { resource }, said) => limits.set(resource, 'paused', true, said),
    ({ queue }) => `is paused in ${queue}. Jobs that run finish.`,
  ),
  resume: limiting(
    (limits, { resource }) => limits.end(resource, 'asleep', 'paused'),
    ({ queue }) => `is no longer paused in ${queue}.`,
  ),
  slots: limiting(
    (limits, { resource, slots }, said) =>
      slots === 0 ? limits.end(resource, 'slots') : limits.set(resource, 'slots', slots, said),
    ({ queue, slots }) =>
      `has ${slots === 0 ? 'its own slots' : counted(slots, 'slot')} in ${queue}.`,
    ({ slots }) => (slots === 0 ? 'reset' : String(slots)),
  ),
  rate: limiting(
    (limits, { resource, limit, perMs }, said) =>
      limit === 0
        ? limits.end(resource, 'rate')
        : limits.set(resource, 'rate', { limit, perMs }, said),
    ({ queue, limit, perMs }) =>
      `has ${limit === 0 ? 'its own rate' : `${counted(limit, 'start')} in ${perMs} ms`} in ${queue}.`,
    ({ limit, perMs }) => (limit === 0 ? 'reset' : `${limit}/${perMs}`),
  ),
  release: {
    on: ['resource'],
    act: async ({ resource }, { fleet, maxLeaseMs }) => {
      if (fleet === undefined) throw new Error('Only leases on lock masters can be released.')
      const { free, masters, after } = await forceRelease(fleet, resource, maxLeaseMs)
      const released = masters.filter(({ outcome }) => outcome === 'released').length
      const where = `It was released on ${released} of ${counted(masters.length, 'master')}.`
      return { isDone: free, told: `${holderLine(after)}. ${where}` }
    },
  },
}

/** An action on what is set for a resource. */
function limiting(
  change: (
    limits: Awaited<ReturnType<QueueView['limitsOf']>>,
    wanted: Wanted,
    said: { readonly by: string; readonly reason?: string },
  ) => Promise<void>,
  outcome: (wanted: Wanted) => string,
  to: (wanted: Wanted) => string = () => '',
): Action {
  return {
    ...{ on: ['queue', 'resource'], to },
    async act(wanted, hands) {
      const { queue, resource, reason } = wanted
      const said = { by: hands.who, ...(reason !== '' && { reason }) }
      await change(await queueOf(hands).limitsOf(queue, resource), wanted, said)
      return { isDone: true, told: `${resource} ${outcome(wanted)}` }
    },
  }
}

function queueOf({ queue }: Hands): QueueView {
  if (queue !== undefined) return queue
  throw new Error(NO_QUEUE.problem)
}

/** Undefined for what names no action, or not what it works on. */
export function wantedIn(given: Readonly<Record<string, unknown>>): Wanted | undefined {
  const text = (value: unknown): string => (typeof value === 'string' ? value : '')
  const wanted = Object.fromEntries([
    ...TEXTS.map((name) => [name, text(given[name])]),
    ...NUMBERS.map((name) => [name, Number.isSafeInteger(given[name]) ? given[name] : NaN]),
  ]) as Wanted
  if (!Object.hasOwn(ACTIONS, wanted.action)) return undefined
  const { on } = ACTIONS[wanted.action] ?? { on: [] }
  // Not cut off: another job may have the beginning of an id that is too long.
  const isNamed = on.every((name) => wanted[name] !== '' && wanted[name].length <= MAX_TEXT)
  return isNamed ? { ...wanted, reason: wanted.reason.slice(0, MAX_TEXT) } : undefined
}

export class Actions {
  readonly #log: Log
  readonly #hands: Hands
  #done: readonly Done[] = []

  constructor(logger: Logger, hands: Hands) {
    this.#log = new Log(logger)
    this.#hands = hands
  }

  get done(): readonly Done[] {
    return this.#done
  }

  async do(wanted: Wanted, who: string, from: string): Promise<Done> {
    const hands = { ...this.#hands, who }
    const { action, queue, jobId, resource, reason } = wanted
    const { on, to, act } = ACTIONS[action] as Action
    const acted = async (): ReturnType<Action['act']> => {
      // To change a queue that is not there would make it.
      if (on.includes('queue')) await queueOf(hands).mustHave(queue)
      return act(wanted, hands)
    }
    const { isDone: ok, told: outcome } = await acted().catch((error: unknown) => ({
      ...{ isDone: false, told: redacted(messageOf(error)) },
    }))
    const set = to?.(wanted) ?? ''
    const what = [action, ...on.map((name) => wanted[name]), set].join(' ').trimEnd()
    const fields = { action, queue, job: jobId, resource, reason, set, ok, outcome }
    const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''))
    this.#log.write('operator:acted', { who, from, did: what, ...given })
    const done = { at: systemClock.wallNow(), who, what, ok, outcome }
    this.#done = [done, ...this.#done].slice(0, MAX_DONE)
    return done
  }
}
