/** Several want the same resource. */
import { lockLibraries } from '../contender.ts'
import { type Harness, LEASE_MS, type MasterCost } from '../harness.ts'
import type { TurnsResult } from '../loads/calls.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import {
  type Contender,
  besideBestPeer,
  named,
  oursIn,
  oursMustNot,
  tableRows,
} from '../../beside.ts'
import type { Figure, Measured, Table } from '../../measured.ts'
import type { Row } from '../harness.ts'
import { spread } from '../../statistics.ts'

interface Scene {
  readonly contenders: number
  readonly holdMs: number
  /** Each request waits up to so long before each master, by chance. */
  readonly jitterMs: number
}

/** The first one is what the figures are about. */
const MAIN: Scene = { contenders: 8, holdMs: 5, jitterMs: 20 }
const SCENES: readonly Scene[] = [
  MAIN,
  { contenders: 2, holdMs: 5, jitterMs: 20 },
  { contenders: 32, holdMs: 5, jitterMs: 20 },
  { contenders: 8, holdMs: 0, jitterMs: 20 },
  { contenders: 8, holdMs: 5, jitterMs: 0 },
  { contenders: 8, holdMs: 0, jitterMs: 0 },
]
const FOR_MS = 2_000
const SMOKE_MS = 300
/** How long a contender goes on trying for one turn. */
const WAIT_MS = 5_000
const SMOKE_WAIT_MS = 600

type Sample = TurnsResult & MasterCost

interface Scenario {
  readonly scene: Scene
  readonly rounds: Rounds<Contender, Sample>
}

export const contended: Row = {
  name: 'contended',
  load:
    'Contenders with connections of their own, in one process, want the same resource again and again for ' +
    `${FOR_MS / 1_000} s, and each gives up after ${WAIT_MS / 1_000} s of waiting for one turn. Jitter is a delay by chance ` +
    'before each request reaches a master, by a proxy.',
  async run(harness) {
    const scenarios: Scenario[] = []
    const scenes = harness.effort.smoke ? [MAIN] : SCENES
    for (const scene of scenes) scenarios.push(await measure(harness, scene))
    const [main] = scenarios
    if (main === undefined) throw new Error('There is no scenario')
    return {
      tables: scenarios.map(tableOf),
      figures: figuresOf(main.rounds),
      wrong: scenarios.flatMap(wrongIn),
      samples: scenarios.map(({ scene, rounds }) => ({ scene, rounds: named(rounds) })),
    } satisfies Measured
  },
}

async function measure(harness: Harness, scene: Scene): Promise<Scenario> {
  harness.say(`contended: ${titleOf(scene)}`)
  const { effort } = harness
  await using proxies = await harness.proxies()
  const { proxies: all, urls } = proxies
  await using groups = await harness.open(
    lockLibraries,
    () => ({ urls, waitMs: effort.upTo(WAIT_MS, SMOKE_WAIT_MS) }),
    scene.contenders,
  )
  if (scene.jitterMs > 0) {
    for (const proxy of all) proxy.delay({ requestsMs: () => Math.random() * scene.jitterMs })
  }
  const rounds = await takeTurns(lockLibraries, effort, (contender, round) => {
    const { process, group } = groups.of(contender)
    const durationMs = effort.forMs(round < 0 ? FOR_MS / 4 : FOR_MS, SMOKE_MS)
    const turns = { group, ttlMs: LEASE_MS, holdMs: scene.holdMs, durationMs }
    return harness.metered(() => process.ask('turns', turns))
  })
  const delayed = all.reduce((sum, { counters }) => sum + counters.requests.delayed, 0)
  if (scene.jitterMs > 0 && delayed === 0) throw new Error('The jitter did not happen')
  await proxies.pass()
  return { scene, rounds }
}

const turns = ({ done }: Sample): number => done
const failed = (sample: Sample): number => sample.failed
const meanMs = ({ waitMs }: Sample): number => waitMs.mean
const longestMs = ({ waitMs }: Sample): number => waitMs.max
const longestByMean = ({ waitMs }: Sample): number => waitMs.max / waitMs.mean
/** The contender that fares worst, beside all. */
const worstOff = ({ waitMs, waitMsOf }: Sample): number => Math.max(...waitMsOf) / waitMs.mean
const clientUs = ({ done, cpuMs }: Sample): number => (cpuMs / done) * 1_000

function tableOf({ scene, rounds }: Scenario): Table {
  const head = ['', 'turns', 'in vain', 'mean wait, ms', 'longest, ms', 'worst off / mean']
  return {
    title: titleOf(scene),
    head: [...head, 'client CPU per turn, µs'],
    rows: tableRows(rounds, [turns, failed, meanMs, longestMs, worstOff, clientUs]),
  }
}

function figuresOf(rounds: Rounds<Contender, Sample>): readonly Figure[] {
  const of = (value: (sample: Sample) => number): Figure['measured'] =>
    spread(rounds.values(oursIn(rounds), value))
  return [
    {
      ...{ name: `Turns in the same time, ${titleOf(MAIN)}`, atLeast: 1.5 },
      ...besideBestPeer(rounds, turns, 'more'),
    },
    { name: '… waits in vain', atMost: 0, measured: of(failed), unit: '' },
    {
      name: '… the contender that waits longest / the mean',
      ...{ atMost: 3, measured: of(worstOff), unit: 'x' },
    },
    {
      name: '… the longest of all waits / the mean',
      ...{ atMost: 3, measured: of(longestByMean), unit: 'x' },
    },
  ]
}

function wrongIn({ scene, rounds }: Scenario): readonly string[] {
  return oursMustNot(
    rounds,
    ({ overlaps }) => overlaps,
    (times) => `contended, ${titleOf(scene)}: ${times} times two held it at once`,
  )
}

function titleOf({ contenders, holdMs, jitterMs }: Scene): string {
  return `${contenders} contenders, held for ${holdMs} ms, jitter 0 to ${jitterMs} ms`
}
