import { setTimeout as delay } from 'node:timers/promises'
import { sum } from '../../statistics.ts'
import type { Bench, RemoteClient } from '../bench.ts'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import {
  fail,
  milliseconds,
  notApplicable,
  pass,
  TUNED,
  TUNED_WORDS,
  type Hazard,
} from '../hazard.ts'

const TTL_MS = 2_000
const HOLE = [2, 3, 4]
const WATCH_MS = 3_000
/** A timer on a busy machine. */
const SLACK_MS = 60

export const lossSignal: Hazard = {
  name: 'loss-signal',
  title: 'The holder learns of the loss by the end of its lease',
  scenario: `three of five masters fall silent under work with a lease of ${milliseconds(TTL_MS)} that is kept alive`,
  async run(bench) {
    if (bench.library === 'redlock-4') return notApplicable('it does not keep leases alive')
    const first = await measure(bench, await bench.client({ waitMs: 1_000 }), 'r')
    if (first.inTime) return pass(first.words)
    await Promise.all(bench.masters.proxies.map((proxy) => proxy.pass()))
    const tuned = await measure(bench, await bench.client({ waitMs: 1_000, ...TUNED }), 'r2')
    return fail(`${first.words} (${TUNED_WORDS}: ${tuned.words})`)
  },
}

async function measure(
  bench: Bench,
  client: RemoteClient,
  resource: string,
): Promise<{ readonly inTime: boolean; readonly words: string }> {
  const lost = (): number =>
    sum(HOLE.map((index) => bench.masters.proxy(index).counters.requests.lost))
  const lostBefore = lost()
  const work = await client.startUsing(resource, TTL_MS)
  await delay(300)
  await Promise.all(HOLE.map((index) => bench.masters.proxy(index).drop()))
  const asOf = monotonicMs()
  const ttlsMs = await bench.ttlsMs(client.key(resource))
  // When the third key of five is gone, another client can have a quorum.
  const endAt = asOf + ([...ttlsMs].sort((a, b) => a - b)[2] ?? 0)
  await delay(Math.max(0, endAt + WATCH_MS - monotonicMs()))
  const { lostAt, settled } = await client.work(work)
  bench.happened('swallowed requests', lost() - lostBefore)
  if (lostAt === undefined) {
    const told = settled === undefined ? 'the work still runs' : 'the work is over'
    return {
      inTime: false,
      words: `no signal ${milliseconds(WATCH_MS)} after the end, ${told}`,
    }
  }
  const lateMs = lostAt - endAt
  const words = `signal ${milliseconds(Math.abs(lateMs))} ${lateMs > 0 ? 'after' : 'before'} the end`
  return { inTime: lateMs <= SLACK_MS, words }
}
