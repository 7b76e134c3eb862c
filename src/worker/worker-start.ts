/** How a LockedWorker starts: it waits for the masters, and reports what is wrong around it. */
import pRetry from 'p-retry'
import type { Channel } from '../channel.ts'
import { sleep, systemClock } from '../clock.ts'
import { QueueUnreachableError, ShardsDifferError } from '../errors.ts'
import type { LineBackend } from '../line/line-backend.ts'
import { compareSettings, type SharedSettings } from '../line/settings-check.ts'
import type { LockService } from '../lock/lock-service.ts'
import { Repeats, withoutNumbers } from '../repeats.ts'

/** What is not ready is tried again this often. */
const READY_RETRY_MS = { minTimeout: 500, maxTimeout: 5_000 }
/** How long the queue's Redis may stay silent before that is reported. */
const QUEUE_PATIENCE_MS = 5_000

interface Starting {
  readonly queue: string
  readonly lines: LineBackend
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
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

export async function reportSettings(
  { queue, lines, signal, onError }: Starting,
  mine: SharedSettings,
): Promise<void> {
  const compare = (): ReturnType<typeof compareSettings> => compareSettings(lines, queue, mine)
  // What the server refuses for long, others report.
  const found = await pRetry(compare, { signal }).catch(() => undefined)
  for (const difference of found?.differences ?? []) onError(difference)
}

/** One server for the queue and a vote fails as one. `doctor` also finds it behind two names. */
export async function reportSharedServer(
  { queue, lines }: Starting,
  { servers = [] }: LockService,
  channel: Channel,
): Promise<void> {
  const named = (name: string): string => name.replace(/^(localhost|::1):/, '127.0.0.1:')
  // Closed before it was ready.
  const own = await lines.address().then(named, () => undefined)
  const master = servers.find((server) => named(server) === own)
  if (master !== undefined) channel.tell('queue:is-master', { queue, master })
}

/**
 * BullMQ waits without end for a server that is silent, and tells of nothing. So it is asked now
 * and then; while it does not answer, that is told.
 * @param connecting is the first question.
 */
export async function reportSilentQueue(
  { queue, lines, signal, onError }: Starting,
  connecting: Promise<unknown>,
): Promise<void> {
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
