/** The command line of the combinations; `--help` says what it takes. */
import { readFile, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
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
  --with NAMES   draw episodes that have these features, by name, with commas between
  --no-shrink    do not make a failing episode smaller
  --lanes N      episodes at once (default 6)
  --fail-fast    stop at the first violation
  --pairs FILE   write which features met on one line, as a page; and run what has not met
  --go-on        with --pairs: from what the page says
  --json         print the totals as one JSON object

Exit code: 0 no violation that comes again (serious ones count at once), 1 otherwise, 2 bad arguments, 130 interrupted.`

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
  const { values } = parseArgs({
    options: {
      episodes: { type: 'string', default: '200' },
      minutes: { type: 'string' },
      first: { type: 'string', default: '1' },
      seed: { type: 'string' },
      plan: { type: 'string' },
      tries: { type: 'string', default: '10' },
      trace: { type: 'boolean', default: false },
      shards: { type: 'string' },
      with: { type: 'string', default: '' },
      'no-shrink': { type: 'boolean', default: false },
      lanes: { type: 'string', default: '6' },
      'fail-fast': { type: 'boolean', default: false },
      pairs: { type: 'string' },
      'go-on': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  const shrinks = !values['no-shrink']
  const must = values.with.split(',').filter((name) => name !== '') as Feature[]
  const unknown = must.find((name) => !ALL_FEATURES.includes(name))
  if (unknown !== undefined)
    return bad('with', `one of ${ALL_FEATURES.join(', ')}, got \`${unknown}\``)
  const shards = values.shards === undefined ? undefined : count('shards', values.shards)
  await using world = await World.open()
  if (values.seed !== undefined || values.plan !== undefined) {
    const plan =
      values.plan === undefined
        ? drawPlan(count('seed', values.seed ?? ''), must, shards)
        : (JSON.parse(await readFile(values.plan, 'utf8')) as Plan)
    return await replay(world, plan, count('tries', values.tries), values.trace, shrinks)
  }
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes)
  if (minutes !== undefined && !(minutes > 0)) return bad('minutes', 'a number above 0')
  const totals = await campaign(world, {
    ...{ first: count('first', values.first), must, shards },
    episodes: minutes === undefined ? count('episodes', values.episodes) : Infinity,
    until: minutes === undefined ? Infinity : performance.now() + minutes * 60_000,
    lanes: count('lanes', values.lanes),
    failFast: values['fail-fast'],
    ...(values.pairs !== undefined && values['go-on'] && { page: values.pairs }),
  })
  const { failures, pairs } = totals
  if (values.pairs !== undefined) {
    await meetMissing(world, totals, count('first', values.first))
    await writeFile(values.pairs, pairs.page())
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
      await runOne(world, totals, drawPlan(next++, options.must, options.shards))
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
  process.stderr.write(`${oneLine(plan, violations)}\n`)
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

function count(name: string, text: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1) return value
  process.exit(bad(name, `an integer >= 1, got \`${text}\``))
}

function bad(name: string, expected: string): number {
  console.error(`Expected --${name} to be ${expected}\n\n${USAGE}`)
  return 2
}

// A worker that did not close is told, and keeps nobody waiting.
process.exit(await main())
