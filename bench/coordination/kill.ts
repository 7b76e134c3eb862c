/** `kill -9` of one of two worker processes while it runs jobs. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../test/faults/monotonic.ts'
import type { KeyedJob, Orders } from './job.ts'
import type { Death, Seen } from './judge.ts'
import { Workers } from './workers.ts'

/** A job that is run twice has been by then. */
const AFTERMATH_MS = 500
const POLL_MS = 5

interface Kill {
  readonly orders: Orders
  /** Those that have to end; more may have been added. */
  readonly expected: readonly KeyedJob[]
  /** So many jobs have ended when the process dies, */
  readonly ended: number
  /** and so many run in it, */
  readonly running: number
  /** for so long at least. */
  readonly afterMs: number
  /** For what comes before the kill, and again for what comes after it. */
  readonly limitMs: number
  add(): Promise<void>
}

export async function killOne(kill: Kill) {
  const { orders, expected, limitMs } = kill
  await using workers = await Workers.start(2, orders.contender === 'bunqueue' ? 'bun' : 'node')
  const seen: Seen[] = []
  workers.listen((one) => seen.push(one))
  await kill.add()
  await workers.work({ ...orders, announce: true, quiet: true })
  const ended = (): readonly string[] =>
    seen.filter(({ report }) => report === 'left').map(({ key, nr }) => `${key} ${nr}`)
  await within(limitMs, () => ended().length >= kill.ended)
  await within(limitMs, () => mostRunning(seen).length >= kill.running)
  await delay(kill.afterMs)
  /** The runs that die. */
  const interrupted = mostRunning(seen)
  const death: Death = { process: interrupted[0]?.process ?? 0, at: monotonicMs() }
  await workers.all[death.process]?.kill()
  await within(limitMs, () => new Set(ended()).size >= expected.length)
  await delay(AFTERMATH_MS)
  return { seen, death, interrupted }
}

/** The runs that go on in the process that has most of them. */
function mostRunning(seen: readonly Seen[]): readonly Seen[] {
  const running = seen.filter(({ report, key, nr }, index) => {
    const isSame = (other: Seen): boolean => other.key === key && other.nr === nr
    return report === 'entered' && !seen.slice(index + 1).some(isSame)
  })
  const [first, second] = [0, 1].map((nr) => running.filter(({ process }) => process === nr))
  return (second?.length ?? 0) > (first?.length ?? 0) ? (second ?? []) : (first ?? [])
}

async function within(limitMs: number, isDone: () => boolean): Promise<void> {
  const until = performance.now() + limitMs
  while (!isDone() && performance.now() < until) await delay(POLL_MS)
}
