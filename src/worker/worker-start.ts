/**
 * How a LockedWorker starts: it waits for the masters, reports what is wrong around it, and begins
 * what it does now and again until it closes.
 */
import pRetry from 'p-retry'
import type { Channel } from '../channel.ts'
import { sleep, systemClock } from '../clock.ts'
import { QueueUnreachableError } from '../errors.ts'
import type { LineBackend } from '../line/line-backend.ts'
import { compareSettings, settingsText, type SharedSettings } from '../line/settings-check.ts'
import { keepSweeping } from '../line/sweep.ts'
import type { LockService } from '../lock/lock-service.ts'
import { Repeats, withoutNumbers } from '../repeats.ts'
import type { RunningJobs } from './run/running-jobs.ts'

/** When the masters are not ready, they are tried again this often. */
const READY_RETRY_MS = { minTimeout: 500, maxTimeout: 5_000 }
/** How long the queue's Redis may stay silent before that is reported. */
const QUEUE_PATIENCE_MS = 5_000
/** How often a worker that has jobs looks whether one shall be cancelled. */
const CANCEL_POLL_MS = 500

interface Starting {
  readonly queue: string
  readonly lines: LineBackend
  readonly locks: LockService
  readonly running: RunningJobs
  readonly channel: Channel
  readonly settings: SharedSettings
  /** How long BullMQ's lock on a job lasts. */
  readonly lockMs: number
  /** Resolves when the queue's Redis is connected. */
  readonly connecting: Promise<unknown>
  /** Aborts when the worker closes. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

export function begin(starting: Starting): void {
  const { settings, lockMs, lines, running, signal, onError } = starting
  if (settings.order === 'strict') {
    void keepSweeping(lines, settingsText(settings), signal, onError)
  }
  void repeat(CANCEL_POLL_MS, signal, () => running.pollCancels(lines))
  void repeat(Math.ceil(lockMs / 4), signal, () => {
    running.loseOldLocks(lockMs)
    running.giveUpLost(lockMs)
    return Promise.resolve()
  })
  void reportSettings(starting)
  void reportSilentQueue(starting)
  void reportSharedServer(starting)
}

/** Runs `action` now and again until `signal` aborts. Its errors are others' to report. */
async function repeat(
  everyMs: number,
  signal: AbortSignal,
  action: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    void action().catch(() => undefined)
    await sleep(systemClock, everyMs, signal).catch(() => undefined) // Closing.
  }
}

/** What keeps it from starting is told when it changes, then once a minute. */
export async function mastersReady(
  locks: LockService,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<void> {
  const repeats = new Repeats<string>(systemClock)
  await pRetry(() => locks.ready(), {
    ...{ ...READY_RETRY_MS, retries: Infinity, randomize: true, signal },
    onFailedAttempt: ({ error }) => {
      if (signal.aborted) return // Who closes the worker may have closed its locks.
      if (repeats.due(withoutNumbers(error.message), 'start') !== undefined) onError(error)
    },
  }).catch(() => undefined) // Closing.
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
  const own = await lines.address().then(named, () => undefined)
  const master = locks.servers?.find((server) => named(server) === own)
  if (master !== undefined) channel.tell('queue:is-master', { queue, master })
}

/**
 * BullMQ waits without end for a server that is silent, and tells of nothing. So it is asked now
 * and then; while it does not answer, that is told.
 */
async function reportSilentQueue(starting: Starting): Promise<void> {
  const { queue, lines, connecting, signal, onError } = starting
  const isOpen = (): boolean => !signal.aborted
  const isOver = (): true => true
  const pause = (): Promise<unknown> => sleep(systemClock, QUEUE_PATIENCE_MS, signal)
  let asked = connecting
  let cause: string | undefined
  while (isOpen()) {
    // Closed before it was ready: BullMQ emits what went wrong.
    const answered = asked.then(isOver, isOver)
    const isAnswered = (late: Promise<unknown>): Promise<boolean> =>
      Promise.race([answered, late.then(() => false, isOver)])
    for (let waitedMs = QUEUE_PATIENCE_MS; !(await isAnswered(pause()));) {
      if (asked === connecting) cause ??= await lines.tlsMismatch()
      if (!isOpen() || (await isAnswered(Promise.resolve()))) break
      onError(new QueueUnreachableError(queue, waitedMs, cause))
      waitedMs += QUEUE_PATIENCE_MS
    }
    cause = 'it is frozen, overloaded or cut off'
    await pause().catch(isOver)
    if (isOpen()) asked = lines.dueAt('')
  }
}
