/** Some of the five masters are gone, in the two ways in which a server can be gone. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import type { FaultProxy } from '../../../test/support/proxy.ts'
import type { Acquired } from '../../peers/remote-client.ts'
import { sum } from '../../rounds.ts'
import type { Bench } from '../bench.ts'
import * as hazard from '../hazard.ts'
import type { Cell, Hazard } from '../hazard.ts'

/** Far more than a loopback round trip on a busy machine, far less than anybody's timeout. */
const PROMPT_MS = 500

export const blackHole: Hazard = {
  title: `One black-holed master costs at most ${PROMPT_MS} ms`,
  scenario: 'one of five masters accepts connections and never answers',
  run: (bench) =>
    isPrompt(
      bench,
      (proxy) => proxy.drop(),
      ({ counters }) => counters.requests.lost,
    ),
}

export const refusingMaster: Hazard = {
  title: `One refusing master costs at most ${PROMPT_MS} ms`,
  scenario: 'one of five masters refuses connections',
  run: (bench) =>
    isPrompt(
      bench,
      (proxy) => proxy.refuse(),
      ({ counters }) => counters.resets,
    ),
}

function isPrompt(
  bench: Bench,
  strike: (proxy: FaultProxy) => Promise<void>,
  proof: (proxy: FaultProxy) => number,
): Promise<Cell> {
  return hazard.alsoTuned(bench, 0, async (client, resource) => {
    const proxy = bench.masters.proxy(4)
    await strike(proxy)
    const acquired = await client.acquire(resource, 10_000, 6_000)
    bench.happened('a master that is away', proof(proxy))
    const prompt = acquired.status === 'held' && acquired.tookMs <= PROMPT_MS
    return hazard.verdict(prompt, hazard.outcomeOf(acquired))
  })
}

const MINORITY = { ttlMs: 10_000, limitMs: 12_500 }

export const refusingMinority: Hazard = {
  title: 'One refusing master does not end mutual exclusion',
  scenario: `one of five masters refuses connections, lease ${hazard.milliseconds(MINORITY.ttlMs)}, every setting the library's default`,
  run: (bench) =>
    hazard.alsoTuned(bench, 0, async (client, resource) => {
      const other = await bench.other()
      await bench.masters.proxy(4).refuse()
      const acquired = await client.acquire(resource, MINORITY.ttlMs, MINORITY.limitMs)
      bench.happened('reset connections', bench.masters.proxy(4).counters.resets)
      const outcome = hazard.outcomeOf(acquired)
      if (acquired.status !== 'held') return hazard.notApplicable(outcome)
      const second = await other.acquire(resource, MINORITY.ttlMs, 3_000)
      const isHeld = await client.soon('isHeld', acquired.held)
      return second.status === 'held' && isHeld
        ? hazard.verdict(
            false,
            `${outcome} and a second client too, while the first says it holds it`,
          )
        : hazard.verdict(true, `${outcome}, a second client was ${second.status}`)
    }),
}

export const reasons: Hazard = {
  title: 'The caller can tell "taken" from "unreachable"',
  scenario:
    'another client holds it; then three of five masters refuse connections (by class, code or documented field)',
  run: (bench) =>
    hazard.alsoTuned(bench, 0, async (client, resource) => {
      const other = await bench.other()
      await other.acquire(resource, 20_000, 3_000)
      const taken = await client.acquire(resource, 5_000, 3_000)
      await Promise.all([2, 3, 4].map((index) => bench.masters.proxy(index).refuse()))
      const unreachable = await client.acquire(`${resource}-away`, 5_000, 12_000)
      bench.happened('reset connections', bench.masters.proxy(2).counters.resets)
      return hazard.verdict(
        tells(taken, 'taken') && tells(unreachable, 'unreachable'),
        `taken: ${told(taken)}; unreachable: ${told(unreachable)}`,
      )
    }),
}

function tells(acquired: Acquired, reason: string): boolean {
  return acquired.status === 'refused' && acquired.reason === reason
}

function told(acquired: Acquired): string {
  if (acquired.status !== 'refused') return hazard.outcomeOf(acquired)
  const name = acquired.message.slice(0, acquired.message.indexOf(':'))
  return `${name}, told as ${acquired.reason}, after ${hazard.milliseconds(acquired.tookMs)}`
}

const SILENT = { ttlMs: 2_000, masters: [2, 3, 4], watchMs: 3_000 }
/** A timer on a busy machine. */
const SLACK_MS = 60

export const lossSignal: Hazard = {
  title: 'The holder learns of the loss by the end of its lease',
  scenario: `three of five masters fall silent under work with a lease of ${hazard.milliseconds(SILENT.ttlMs)} that is kept alive`,
  async run(bench) {
    if (bench.library.name === 'redlock-4')
      return hazard.notApplicable('it does not keep leases alive')
    return hazard.alsoTuned(bench, 1_000, async (client, resource) => {
      const proxies = SILENT.masters.map((index) => bench.masters.proxy(index))
      const lost = (): number => sum(proxies.map(({ counters }) => counters.requests.lost))
      const lostBefore = lost()
      const work = await client.startUsing(resource, SILENT.ttlMs)
      await delay(300)
      await Promise.all(proxies.map((proxy) => proxy.drop()))
      const asOf = monotonicMs()
      const ttlsMs = await bench.ttlsMs(client.key(resource))
      // When the third key of five is gone, another client can have a quorum.
      const endAt = asOf + ([...ttlsMs].sort((a, b) => a - b)[2] ?? 0)
      await delay(Math.max(0, endAt + SILENT.watchMs - monotonicMs()))
      const { lostAt, settled } = await client.soon('work', work)
      bench.happened('swallowed requests', lost() - lostBefore)
      if (lostAt === undefined) {
        const goesOn = settled === undefined ? 'the work still runs' : 'the work is over'
        const words = `no signal ${hazard.milliseconds(SILENT.watchMs)} after the end, ${goesOn}`
        return hazard.verdict(false, words)
      }
      const lateMs = lostAt - endAt
      const when = lateMs > 0 ? 'after' : 'before'
      const words = `signal ${hazard.milliseconds(Math.abs(lateMs))} ${when} the end`
      return hazard.verdict(lateMs <= SLACK_MS, words)
    })
  },
}
