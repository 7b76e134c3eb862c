/** Reads the logs of several processes side by side, in the order of time, and judges them. */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { HistoryChecker, type HistoryOptions, type HistoryVerdict } from './history-checker.ts'
import { readLeaseEvent, type LeaseEvent } from './lease-event.ts'

/** A log: lines, or the objects that they are of, in the order in which they were written. */
export interface HistorySource {
  /** For messages, such as the name of its file. */
  readonly name: string
  /** Its lines as text, or as objects. */
  readonly lines: AsyncIterable<string | object> | Iterable<string | object>
}

/** How logs are read. */
export interface VerifyOptions extends HistoryOptions {
  /** Called after each line, also of those that are not about leases. */
  readonly onLine?: () => void
}

/**
 * As {@link verifyHistory}, of files.
 * @example
 * ```ts
 * const { verdict } = await verifyHistoryFiles(['worker-1.ndjson', 'worker-2.ndjson'])
 * ```
 */
export async function verifyHistoryFiles(
  paths: readonly string[],
  options: VerifyOptions = {},
): Promise<HistoryVerdict> {
  return verifyHistory(
    paths.map((path) => ({ name: path, lines: linesOf(() => createReadStream(path)) })),
    options,
  )
}

/** Opened when it is read: readline drops the lines that come before they are read. */
export async function* linesOf(open: () => Readable): AsyncGenerator<string, void, undefined> {
  yield* createInterface({ input: open(), crlfDelay: Infinity })
}

/** A source, its next event about a lease, and when that was. */
interface Reader {
  readonly events: AsyncGenerator<LeaseEvent, void, undefined>
  event: LeaseEvent
  atMs: number
}

/**
 * Whether two trusted leases of one resource ever overlapped, whether fencing tokens rose, and
 * which lines are missing.
 * @example
 * ```ts
 * const lines = ['{"event":"lease:granted"}'] // as the logger wrote them
 * const { verdict, findings } = await verifyHistory([{ name: 'worker-1', lines }])
 * ```
 */
export async function verifyHistory(
  sources: readonly HistorySource[],
  options: VerifyOptions = {},
): Promise<HistoryVerdict> {
  const checker = new HistoryChecker(options)
  const order = new Order()
  const readers: Reader[] = []
  for (const source of sources) {
    const events = eventsOf(source, checker, options.onLine)
    const { value: event } = await events.next()
    if (event !== undefined) readers.push({ events, event, atMs: order.at(event) })
  }
  for (;;) {
    readers.sort((a, b) => a.atMs - b.atMs)
    const [first, second] = readers
    if (first === undefined) return checker.verdict()
    // Mostly the next line is of the same source, too.
    do {
      checker.add(first.event)
      const { value: event } = await first.events.next()
      if (event === undefined) {
        readers.shift()
        break
      }
      first.event = event
      first.atMs = order.at(event)
    } while (first.atMs <= (second?.atMs ?? Infinity))
  }
}

async function* eventsOf(
  { name, lines }: HistorySource,
  checker: HistoryChecker,
  onLine: () => void = () => undefined,
): AsyncGenerator<LeaseEvent, void, undefined> {
  let number = 0
  for await (const line of lines) {
    number++
    const reading = readLeaseEvent(line)
    if (reading.status === 'event') yield reading.event
    else if (reading.status === 'unreadable') {
      checker.unreadable(`line ${number} of ${name}`, reading.problem)
    }
    onLine()
  }
}

/**
 * When an event was, for the order in which sources are read: on its machine's monotonic clock,
 * because a wall clock may be set back. A machine that was suspended is where its wall clock says.
 */
class Order {
  readonly #machineOf = new Map<string, string>()
  readonly #offsetMs = new Map<string, number>()

  at(event: LeaseEvent): number {
    const { lock, monotonicMs, wallMs } = event
    if (event.kind === 'granted') this.#machineOf.set(lock, event.machine)
    const machine = this.#machineOf.get(lock)
    if (machine === undefined) return wallMs
    const offsetMs = Math.max(this.#offsetMs.get(machine) ?? -Infinity, wallMs - monotonicMs)
    this.#offsetMs.set(machine, offsetMs)
    return monotonicMs + offsetMs
  }
}
