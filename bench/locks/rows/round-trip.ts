/** Acquire and release of free resources over a network that takes its time. */
import { lockLibraries } from '../contender.ts'
import { type Harness, type Row } from '../harness.ts'
import type { FlowResult } from '../loads/calls.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import { type Contender, besideBestPeer, oursMustNot } from '../../beside.ts'
import { shown } from '../../format.ts'
import type { Measured, Table } from '../../measured.ts'
import { spread } from '../../statistics.ts'

const ADDED_MS = [0, 1, 5] as const
const CONCURRENCY = [1, 16, 64] as const
/** A multiple of every concurrency, so that no two clients meet. */
const RESOURCES = 10_240
const FOR_MS = 500

interface Level {
  readonly addedMs: number
  readonly concurrency: number
  readonly rounds: Rounds<Contender, FlowResult>
}

const perSecond = ({ done, tookMs }: FlowResult): number => (done / tookMs) * 1_000
const medianMs = ({ acquireMs }: FlowResult): number => acquireMs.p50

export const roundTrip: Row = {
  name: 'round-trip',
  load: 'As `acquire`, through a proxy that adds this time to the round trip to every master.',
  async run(harness) {
    const levels: Level[] = []
    for (const addedMs of harness.effort.some(ADDED_MS)) {
      levels.push(...(await measure(harness, addedMs)))
    }
    return {
      tables: harness.effort.some(CONCURRENCY).map((one) =>
        tableOf(
          one,
          levels.filter(({ concurrency }) => concurrency === one),
        ),
      ),
      figures: levels
        .filter(({ addedMs }) => addedMs > 0)
        .map(({ addedMs, concurrency, rounds }) => ({
          name: `Leases per second, ${addedMs} ms added, ${concurrency} at a time`,
          ...besideBestPeer(rounds, perSecond, 'more'),
        })),
      wrong: levels.flatMap(({ addedMs, concurrency, rounds }) =>
        oursMustNot(
          rounds,
          ({ failed, stuck }) => failed + stuck,
          (times) => `${addedMs} ms added, ${concurrency} at a time: ${times} were not granted`,
        ),
      ),
    } satisfies Measured
  },
}

function tableOf(concurrency: number, levels: readonly Level[]): Table {
  const added = levels.map(({ addedMs }) => `${addedMs} ms`)
  const [first = '', ...others] = added
  const cells = (contender: Contender, of: (result: FlowResult) => number): readonly string[] =>
    levels.map(({ rounds }) => shown(spread(rounds.values(contender, of))))
  return {
    title: `${concurrency} at a time`,
    head: ['', `leases/s, ${first} added`, ...others, `acquire p50, ms, ${first}`, ...others],
    rows: lockLibraries.map((contender) => [
      contender.title,
      ...cells(contender, perSecond),
      ...cells(contender, medianMs),
    ]),
  }
}

async function measure(harness: Harness, addedMs: number): Promise<readonly Level[]> {
  const { effort } = harness
  await using proxies = await harness.proxies()
  for (const proxy of proxies.proxies) proxy.delay({ repliesMs: addedMs })
  await using clients = await harness.open(lockLibraries, () => ({ urls: proxies.urls }))
  const levels: Level[] = []
  for (const concurrency of effort.some(CONCURRENCY)) {
    harness.say(`round-trip: ${addedMs} ms added, ${concurrency} at a time`)
    const rounds = await takeTurns(lockLibraries, effort, (contender) => {
      const durationMs = effort.forMs(FOR_MS)
      return clients.flow(contender, { concurrency, resources: RESOURCES, durationMs })
    })
    levels.push({ addedMs, concurrency, rounds })
  }
  return levels
}
