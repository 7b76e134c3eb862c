/** The errors of a worker: each is said once, then once a minute, and so is that it is over. */
import { systemClock, type Timer } from '../../../clock.ts'
import { isConnected } from '../../../line/queue-connection.ts'
import { messageOf } from '../../../message-of.ts'
import { Repeats, withoutNumbers } from '../../../repeats.ts'
import { refuses } from '../../../worker/run/failure.ts'
import type { Cli } from '../cli.ts'
import type { RunnableWorker } from './load-workers.ts'

/** What BullMQ's connections say of a server that is away. */
const AWAY =
  /ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|E(HOST|NET)UNREACH|Connection is closed|QUEUE_UNREACHABLE|certificate|^\S* TLS: |sentinels are unreachable|max number of clients/
/** Which script was refused, and where: it differs, and means nothing to an operator. */
const PLACE = /\s*script: \w+, on @user_script:\d+\.$/
/** A worker tells of trouble more often: BullMQ rests for 15 seconds after an error. */
const QUIET_MS = 20_000

/** @param refused is aborted where the worker's own settings are wrong. */
export function reporter(
  { out, signal }: Cli,
  worker: RunnableWorker,
  refused: AbortController,
): (error: unknown) => void {
  const { name } = worker
  const repeats = new Repeats<string>(systemClock)
  let isAway = false
  let quiet: Timer | undefined
  const back = (how: string): void => {
    quiet?.cancel()
    if (!isAway && quiet === undefined) return
    isAway = false
    quiet = undefined
    if (signal.aborted) return // A worker that closes asks nothing.
    const message = `the queue's Redis ${how}`
    out.note(`${name}: ${message}`, { event: 'queue-back', queue: name, message })
  }
  // A worker says only once that it is ready.
  const backends = (worker.shards ?? [worker]).flatMap((each) => each.getBackend?.() ?? [])
  for (const backend of backends) {
    backend.on('ready', () => {
      // rule: all-connections-are-back
      if (backends.every(isConnected)) back('answers again')
    })
  }
  return (error) => {
    const said = messageOf(error)
    const { code, isOwnFault } = error as { readonly code?: unknown; readonly isOwnFault?: unknown }
    const isRefused = refuses(error)
    const message = isRefused ? said.replace(PLACE, '') : said
    isAway ||= AWAY.test(`${String(code)} ${said}`)
    if (isRefused) {
      quiet?.cancel()
      quiet = systemClock.after(QUIET_MS, () => {
        back(`answers again: no error for ${QUIET_MS / 1_000} s`)
      })
    }
    const times = repeats.due(withoutNumbers(message), 'error')
    if (times !== undefined) {
      const count = times > 1 ? ` (${times} times in the last minute)` : ''
      out.note(`${name}: ${message}${count}`, { event: 'error', queue: name, message, times })
    }
    // Of the class that the module has loaded, which may be another copy.
    if (isOwnFault === true) refused.abort()
  }
}
