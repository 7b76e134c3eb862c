/** The command line of the combinations; `--help` says what it takes. */
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { markdown } from '../../scripts/docs/markdown.ts'
import {
  aboveZero,
  flag,
  integer,
  oneOf,
  readOptions,
  refuse,
  someOf,
  text,
} from '../../scripts/read-options.ts'
import { KINDS, LOCK_SERVERS } from '../../scripts/lock-servers/lock-servers.ts'
import { messageOf } from '../../src/message-of.ts'
import { ALL_FEATURES, drawPlan, type Feature } from './draw.ts'
import { runEpisode } from './episode.ts'
import { areSerious, judgedEpisode, verdictOf } from './judged.ts'
import type { Violation } from './oracle.ts'
import { Pairs } from './pairs.ts'
import type { Plan } from './plan.ts'
import { describe, planText } from './report.ts'
import { shrink, tryPlan, type Failure } from './shrink.ts'
import { World } from './world.ts'

const USAGE = `Combines everything that is public, at random, on real servers, and judges it.

  npm run combine -- [options]

  --episodes N   how many episodes to run (default 200)
  --minutes M    run for so long instead
  --first S      the seed of the first (default 1)
  --seed S       run one seed, until it fails, at most --tries times
  --plan FILE    run the plan in a file, likewise
  --tries N      with --seed or --plan (default 10)
  --trace        with --seed or --plan: print what happened, also without a violation
  --shards N     on a sharded queue of so many shards, in one Redis
  --locks NAME   leases of another lock service: ${KINDS.join(', ')}
  --with NAMES   draw episodes that have these features, by name, with commas between
  --no-shrink    do not make a failing episode smaller
  --lanes N      episodes at once (default 6)
  --fail-fast    stop at the first violation
  --pairs FILE   write which features met on one line, as a page; and run what has not met
  --go-on        with --pairs: from what the page says
  --json         print the totals as one JSON object

Exit code: 0 no violation that comes again (serious ones count at once), 1 otherwise, 2 bad arguments,
64 the server of --locks is not installed, 130 interrupted.`

const NOT_INSTALLED = 64
const SHRINK_MS = 90_000
const SHRINK_TIMES = 4
const EXPLAINED = 3
const PAIR_TRIES = 8
const PAIR_LANES = 6

interface Totals {
  episodes: number
  readonly failures: Failure[]
  readonly times: number[]
  readonly pairs: Pairs
}

async function main(): Promise<number> {
  const values = readOptions(USAGE, {
    episodes: integer(200),
    minutes: aboveZero(undefined),
    first: integer(1),
    seed: integer(),
    plan: text(),
    tries: integer(10),
    trace: flag,
    shards: integer(),
    locks: oneOf(KINDS),
    with: someOf(ALL_FEATURES),
    noShrink: flag,
    lanes: integer(6),
    failFast: flag,
    pairs: text(),
    goOn: flag,
    json: flag,
  })
  const { seed, shards, locks, with: must, minutes } = values
  const missing = locks && LOCK_SERVERS[locks].missing
  if (missing !== undefined) {
    console.error(missing)
    return NOT_INSTALLED
  }
  const areMasters = locks === undefined
  const shrinks = !values.noShrink
  const given = values.plan === undefined ? undefined : await readPlan(values.plan)
  const plan = given ?? (seed === undefined ? undefined : drawPlan(seed, must, shards, areMasters))
  await using world = await World.open(locks)
  if (plan !== undefined) return await replay(world, plan, values.tries, values.trace, shrinks)
  const totals = await campaign(world, {
    ...{
      first: values.first,
      must,
      shards,
      areMasters,
      lanes: values.lanes,
      failFast: values.failFast,
    },
    episodes: minutes === undefined ? values.episodes : Infinity,
    until: minutes === undefined ? Infinity : performance.now() + minutes * 60_000,
    ...(values.pairs !== undefined && values.goOn && { page: values.pairs }),
  })
  const { failures, pairs } = totals
  if (values.pairs !== undefined) {
    await meetMissing(world, totals, values.first)
    await writeFile(values.pairs, await markdown(pairs.page(), values.pairs))
    const missing = pairs.missing().map((pair) => pair.join(' + '))
    console.error(`Not met: ${missing.join(', ') || 'none'}`)
  }
  const byRule = new Map(failures.map((each) => [each.violations[0]?.rule, each]))
  if (values.json) {
    const failed = failures.map(({ plan, violations }) => ({ seed: plan.seed, violations }))
    console.log(JSON.stringify({ episodes: totals.episodes, failed, ok: failed.length === 0 }))
  } else console.log(summary(totals))
  const shown = shrinks ? [...byRule.values()].slice(0, EXPLAINED) : []
  // One that does not come again, and is not serious, may be the machine's: told, not counted.
  let counted = failures.filter(({ violations }) => areSerious(violations)).length
  for (const failure of shown) if (await explain(world, failure)) counted++
  if (interrupted) return 130
  const areAllShown = shown.length === byRule.size
  return counted > 0 || !areAllShown ? 1 : 0
}

let interrupted = false
process.once('SIGINT', () => {
  interrupted = true
})

interface Campaign {
  readonly must: readonly Feature[]
  readonly shards: number | undefined
  readonly areMasters: boolean
  readonly first: number
  readonly episodes: number
  readonly until: number
  readonly lanes: number
  readonly failFast: boolean
  /** Where pairs are that have met already. */
  readonly page?: string
}

async function campaign(world: World, options: Campaign): Promise<Totals> {
  const totals: Totals = {
    episodes: 0,
    failures: [],
    times: [],
    pairs:
      options.page === undefined ? new Pairs() : Pairs.from(await readFile(options.page, 'utf8')),
  }
  let next = options.first
  const isOver = (): boolean =>
    interrupted ||
    next >= options.first + options.episodes ||
    performance.now() > options.until ||
    (options.failFast && totals.failures.length > 0)
  const lane = async (): Promise<void> => {
    while (!isOver()) {
      await runOne(
        world,
        totals,
        drawPlan(next++, options.must, options.shards, options.areMasters),
      )
    }
  }
  await Promise.all(Array.from({ length: options.lanes }, lane))
  return totals
}

/** Runs episodes for pairs that have not met, until each has met or had its tries. */
async function meetMissing(world: World, totals: Totals, first: number): Promise<void> {
  const { pairs } = totals
  for (let attempt = 0; attempt < PAIR_TRIES && !interrupted; attempt += 1) {
    const missing = [...pairs.missing()]
    const lane = async (): Promise<void> => {
      for (let pair = missing.shift(); pair !== undefined; pair = missing.shift()) {
        if (interrupted) return
        const plan = drawPlan(first + attempt, pair)
        await runOne(world, totals, plan)
      }
    }
    await Promise.all(Array.from({ length: PAIR_LANES }, lane))
  }
}

async function runOne(world: World, totals: Totals, plan: Plan): Promise<void> {
  const startedAt = performance.now()
  const { history, violations } = await judgedEpisode(world, plan)
  totals.times.push(performance.now() - startedAt)
  totals.episodes += 1
  totals.pairs.add(history)
  if (violations.length === 0) return
  totals.failures.push({ plan, history, violations })
  const file = join(tmpdir(), `combination-${plan.seed}.txt`)
  await writeFile(file, describe(history, violations, Infinity))
  process.stderr.write(`${oneLine(plan, violations)}: ${file}\n`)
}

function oneLine({ seed, features }: Plan, [first]: readonly Violation[]): string {
  return `seed ${seed}: ${first?.rule}: ${first?.detail} [${features.join(', ')}]`
}

function summary({ episodes, failures, times }: Totals): string {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (part: number): string =>
    ((sorted[Math.floor(sorted.length * part)] ?? 0) / 1_000).toFixed(2)
  const seeds = failures.map(({ plan }) => plan.seed).join(' ')
  return (
    `${episodes} episodes, ${failures.length} with violations; ` +
    `an episode took ${at(0.5)} s, ${at(0.95)} s, ${at(1 - 1e-9)} s (median, 95 %, longest)` +
    (failures.length === 0 ? '' : `\nVIOLATIONS in seeds ${seeds}`)
  )
}

async function replay(
  world: World,
  plan: Plan,
  tries: number,
  isTraced: boolean,
  shrinks: boolean,
): Promise<number> {
  for (let attempt = 1; attempt <= tries && !interrupted; attempt += 1) {
    const { history, violations } = verdictOf(await runEpisode(world, plan))
    if (isTraced && violations.length === 0) {
      console.log(describe(history, violations))
      return 0
    }
    if (violations.length === 0) continue
    console.log(`Failed in run ${attempt} of ${tries}.`)
    if (shrinks) await explain(world, { plan, history, violations })
    else console.log(describe(history, violations))
    return 1
  }
  console.log(`No violation in ${tries} runs.`)
  return 0
}

/** @returns whether it fails again. */
async function explain(world: World, failure: Failure): Promise<boolean> {
  const { plan, violations } = failure
  const rule = violations[0]?.rule
  const again = await tryPlan(world, plan, rule, SHRINK_TIMES * 2)
  if (again === undefined) {
    console.log(`\nseed ${plan.seed} did not fail again in ${SHRINK_TIMES * 2} runs:\n`)
    console.log(describe(failure.history, violations))
    return false
  }
  const untilMs = performance.now() + SHRINK_MS
  const smallest = await shrink(world, again, { times: SHRINK_TIMES, untilMs })
  const { shards } = plan.settings
  const file = `/tmp/combination-${plan.seed}.json`
  await writeFile(file, planText(smallest.plan))
  console.log(
    `\nseed ${plan.seed}, ${plan.operations.length} operations, made ${smallest.plan.operations.length}:\n`,
  )
  console.log(describe(smallest.history, smallest.violations))
  console.log(
    `\nagain: npm run combine -- --plan ${file}, or --seed ${plan.seed}${shards === undefined ? '' : ` --shards ${shards}`}`,
  )
  return true
}

async function readPlan(file: string): Promise<Plan> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Plan
  } catch (error) {
    return refuse(USAGE, `--plan: ${messageOf(error)}`)
  }
}

// A worker that did not close is told, and keeps nobody waiting.
process.exit(await main())
