/**
 * What a LockedWorker does beside its jobs: it waits for the masters, reports what is wrong around
 * it, does this and that now and again until it closes, and looks when leases can be granted again.
 */
import pRetry from 'p-retry'
import type { Channel } from '../channel.ts'
import { idleClock, sleep, systemClock, withinMs } from '../clock.ts'
import { QueueUnreachableError, ShardsDifferError } from '../errors.ts'
import type { LineBackend } from '../line/line-backend.ts'
import { addressOf, hasEnded, whySilent } from '../line/queue-connection.ts'
import { compareSettings, settingsText, type SharedSettings } from '../line/settings-check.ts'
import type { LockService } from '../lock/lock-service.ts'
import { Repeats, withoutNumbers } from '../repeats.ts'
import type { Visits } from './run/visits.ts'

/** What is not ready is tried again this often. */
const READY_RETRY_MS = { minTimeout: 500, maxTimeout: 5_000 }
/** How long the queue's Redis may stay silent before that is reported. */
const QUEUE_PATIENCE_MS = 5_000
/** How often a worker that has jobs looks whether one shall be cancelled. */
const CANCEL_POLL_MS = 500
/** How often one of the workers of a queue looks at lines in which jobs sleep, and at how many. */
const SWEEP_MS = 1_000
const SWEPT = 200
const PROBE_MS = { min: 200, spread: 200 }

interface WorkerParts {
  readonly queue: string
  readonly locks: LockService
  readonly channel: Channel
  /** Aborts when the worker closes. */
  readonly signal: AbortSignal
}

interface Starting extends WorkerParts {
  readonly lines: LineBackend
  readonly visits: Visits
  readonly settings: SharedSettings
  /** How long BullMQ's lock on a job lasts. */
  readonly lockMs: number
  /** Resolves when the queue's Redis is connected. */
  readonly connecting: Promise<unknown>
  readonly onError: (error: unknown) => void
}

export function begin(starting: Starting): void {
  const { settings, lockMs, lines, visits, signal, onError } = starting
  if (settings.order === 'strict') {
    const sweep = { most: SWEPT, everyMs: SWEEP_MS * 0.7, settings: settingsText(settings) }
    void repeat(SWEEP_MS, signal, () => lines.run('line/lua/sweep', sweep), onError)
  }
  void repeat(CANCEL_POLL_MS, signal, () => visits.pollCancels(lines))
  void repeat(lockMs / 4, signal, () => {
    visits.stopLost(lockMs)
  })
  void reportSettings(starting)
  void reportSilentQueue(starting)
  void reportSharedServer(starting)
}

/**
 * Runs `action` now and again until `signal` aborts. Workers spread: they do not all ask at once.
 * Without `onError`, its errors are others' to report.
 */
async function repeat(
  everyMs: number,
  signal: AbortSignal,
  action: () => unknown,
  onError?: (error: unknown) => void,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(systemClock, everyMs * (0.75 + systemClock.random() / 2), signal)
      .then(action)
      .catch((error: unknown) => {
        if (!signal.aborted) onError?.(error)
      })
  }
}

/**
 * What keeps it from starting is told when it changes, then once a minute.
 * @throws ShardsDifferError: no retry would change it.
 */
export async function whenReady(
  ready: () => Promise<void>,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<void> {
  const repeats = new Repeats<string>(systemClock)
  const isFinal = (error: unknown): boolean => error instanceof ShardsDifferError
  await pRetry(ready, {
    ...{ ...READY_RETRY_MS, retries: Infinity, randomize: true, signal },
    shouldRetry: ({ error }) => !isFinal(error),
    onFailedAttempt: ({ error }) => {
      // Who closes the worker may have closed its locks.
      if (signal.aborted || isFinal(error)) return
      if (repeats.due(withoutNumbers(error.message), 'start') !== undefined) onError(error)
    },
  }).catch((error: unknown) => {
    if (isFinal(error)) throw error // Else it closes.
  })
}

async function reportSettings(starting: Starting): Promise<void> {
  const { queue, lines, settings, signal, onError } = starting
  const compare = (): ReturnType<typeof compareSettings> => compareSettings(lines, queue, settings)
  // What the server refuses for long, others report.
  const found = await pRetry(compare, { signal }).catch(() => undefined)
  for (const difference of found?.differences ?? []) onError(difference)
}

/** One server for the queue and a vote fails as one. `doctor` also finds it behind two names. */
async function reportSharedServer({ queue, lines, locks, channel }: Starting): Promise<void> {
  const named = (name: string): string => name.replace(/^(localhost|::1):/, '127.0.0.1:')
  // Closed before it was ready.
  const own = await addressOf(lines).then(named, () => undefined)
  const master = locks.servers?.find((server) => named(server) === own)
  if (master !== undefined) channel.tell('queue:is-master', { queue, master })
}

/**
 * BullMQ waits without end for a server that is silent, and tells of nothing. So it is asked now
 * and then; while it does not answer, that is told.
 */
async function reportSilentQueue(starting: Starting): Promise<void> {
  const { lines, connecting, signal, onError } = starting
  // A prefix tells which queue, or which shard of one.
  const queue = lines.qualifiedName.replace(/^bull:/, '')
  const isClosing = (): boolean => signal.aborted
  const isAnswered = (): true => true
  // A client that has ended refuses at once.
  const ask = (): Promise<boolean> => lines.dueAt('').then(isAnswered, () => !hasEnded(lines))
  // Closed before it was ready: BullMQ emits what went wrong.
  let answered: Promise<boolean> = connecting.then(isAnswered, isAnswered)
  let advice = '; check `connection`'
  let silentMs = 0
  while (!isClosing()) {
    const reply = await withinMs(idleClock, QUEUE_PATIENCE_MS, answered)
    if (reply === true) {
      silentMs = 0
      if (lines.isSilent) lines.endSilence()
      advice = ''
    } else {
      const cause = (await whySilent(lines)) + advice
      if (isClosing()) return
      silentMs += QUEUE_PATIENCE_MS
      lines.isSilent = true
      onError(new QueueUnreachableError(queue, silentMs, cause))
      if (reply === undefined) continue // It may still answer.
    }
    await sleep(systemClock, QUEUE_PATIENCE_MS, signal).catch(() => undefined) // Closing.
    if (!isClosing()) answered = ask()
  }
}

/**
 * Keeps a worker from fetching jobs that it would only give back: open while no lease can be
 * granted. A probe finds out when one can be again.
 */
export class Breaker {
  readonly #options: WorkerParts
  readonly #resource: string
  isOpen = false

  /** @param resource that no other client asks for. */
  constructor(options: WorkerParts, resource: string) {
    this.#options = options
    this.#resource = resource
  }

  /** A job could not be leased because too few masters, or not the lock service, answered. */
  trip(reason: string): void {
    if (this.isOpen || this.#options.signal.aborted) return
    this.isOpen = true
    const { channel, queue } = this.#options
    channel.tell('breaker:open', { queue, reason })
    void this.#untilReachable()
  }

  async #untilReachable(): Promise<void> {
    const { signal, channel, queue, locks } = this.#options
    while (!signal.aborted) {
      try {
        await sleep(systemClock, PROBE_MS.min + systemClock.random() * PROBE_MS.spread, signal)
        const outcome = await locks.tryAcquire(this.#resource)
        if (outcome.status === 'granted') await outcome.lease.release()
        if (outcome.status !== 'unreachable') break
      } catch {
        return // The worker or the lock service is closing.
      }
    }
    this.isOpen = false
    if (!signal.aborted) channel.tell('breaker:closed', { queue })
  }
}
