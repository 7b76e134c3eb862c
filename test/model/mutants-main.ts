/** The command line of the mutants; `--help` says what it takes. */
import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { isLua, mutants, type Mutant, type Patch } from './mutants.ts'

const USAGE = `Takes one rule of the protocol away at a time and asks the suite whether it notices.

  npm run mutants -- [options]

  --rule TEXT    only rules whose name contains TEXT
  --seeds N      seeds of the simulation for each mutant (default 300)
  --skip-lua     do not compare the changed Lua with the simulated master (needs a redis-server)
  --json         one JSON object per mutant

Each mutant is a copy of the project in a temporary directory. It is caught by the first of: the simulation (says after how
many seeds), the exhaustive model without the same rule, the tests of test/sim, those with real servers. A changed script
must also differ from its simulated twin. Exit code: 0 all were caught, 1 otherwise, 2 bad arguments.`

const ROOT = resolve(import.meta.dirname, '../..')
const COPIED = ['src', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts'] as const
/** One thing at a time in a small world. */
const DIRECTED = ['abandoned-attempts', 'healing', 'late-extension'].map(
  (name) => `test/sim/${name}`,
)
const TWINS = 'test/sim/scripts-equal-model.test.ts'
/** In this order. */
const FURTHER = ['test/redis', 'test/lock', 'test/redlock', 'test/hazards'] as const
const stopping = new AbortController()

/** Longer than any of the judges takes when it works. */
const LIMIT_MS = 900_000

interface Verdict {
  readonly rule: string
  readonly caughtBy: string
  readonly detail: string
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      rule: { type: 'string', default: '' },
      seeds: { type: 'string', default: '300' },
      'skip-lua': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  const seeds = Number(values.seeds)
  const chosen = mutants.filter(({ rule }) => rule.includes(values.rule))
  if (!Number.isInteger(seeds) || seeds < 1 || chosen.length === 0) {
    console.error(USAGE)
    return 2
  }
  let survivors = 0
  for (const mutant of chosen) {
    process.stderr.write(`${mutant.rule} …\n`)
    const verdicts = [await judge(mutant, seeds)]
    const lua = mutant.patches.filter(isLua)
    if (lua.length > 0 && !values['skip-lua']) verdicts.push(await compareTwins(mutant, lua))
    for (const verdict of verdicts) {
      if (verdict.caughtBy === 'NOBODY') survivors++
      if (values.json) console.log(JSON.stringify(verdict))
      else
        console.log(`${verdict.rule.padEnd(58)} ${verdict.caughtBy.padEnd(11)} ${verdict.detail}`)
    }
  }
  return survivors === 0 ? 0 : 1
}

async function judge(mutant: Mutant, seeds: number): Promise<Verdict> {
  const { rule, model, patches } = mutant
  return inCopy(patches, async (directory) => {
    if (mutant.caughtBy === 'tests' && (await testsFail(directory, ...DIRECTED))) {
      return { rule, caughtBy: 'tests', detail: DIRECTED.join(' ') }
    }
    if (mutant.caughtBy === 'model' && model !== undefined) {
      const found = await missedByModel(model)
      if (found !== undefined) return { rule, caughtBy: 'model', detail: found }
    }
    // The simulation has no Lua: only tests with real servers can notice.
    if (patches.every(isLua)) return judgeByTests(rule, directory)
    const simulation = await run(directory, [
      ...['--import', 'tsx', 'test/sim/main.ts', '--fail-fast', '--json'],
      ...['--seeds', String(seeds)],
    ])
    const summary = parseSummary(simulation.stdout)
    const [failed] = summary.failed
    if (failed !== undefined) {
      const properties = [...new Set(failed.violations.map(({ property }) => property))].join(' ')
      const detail = `${properties} after ${summary.seeds} seeds (seed ${failed.seed})`
      return { rule, caughtBy: 'simulation', detail }
    }
    const found = model === undefined ? undefined : await missedByModel(model)
    if (found !== undefined) return { rule, caughtBy: 'model', detail: found }
    // What virtual clients do not run into in so few seeds, a test may ask for directly.
    if (await testsFail(directory, ...DIRECTED)) {
      return { rule, caughtBy: 'tests', detail: DIRECTED.join(' ') }
    }
    return judgeByTests(rule, directory, `${summary.seeds} seeds`)
  })
}

async function judgeByTests(
  rule: string,
  directory: string,
  survived = 'only the Lua differs',
): Promise<Verdict> {
  for (const tests of FURTHER) {
    if (await testsFail(directory, tests)) return { rule, caughtBy: 'tests', detail: tests }
  }
  return { rule, caughtBy: 'NOBODY', detail: survived }
}

/** The Lua alone changed: its twin in the simulated master must be found to differ. */
async function compareTwins({ rule }: Mutant, lua: readonly Patch[]): Promise<Verdict> {
  return inCopy(lua, async (directory) =>
    (await testsFail(directory, TWINS))
      ? { rule, caughtBy: 'twins', detail: 'the Lua alone' }
      : { rule, caughtBy: 'NOBODY', detail: 'the Lua alone' },
  )
}

async function inCopy<Result>(
  patches: readonly Patch[],
  work: (directory: string) => Promise<Result>,
): Promise<Result> {
  const directory = await mkdtemp(join(tmpdir(), 'redlock-mutant-'))
  try {
    for (const name of COPIED)
      await cp(join(ROOT, name), join(directory, name), { recursive: true })
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    for (const patch of patches) await apply(directory, patch)
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** @throws Error when the source has moved on, because a mutant that changes nothing is caught by nobody. */
async function apply(directory: string, { file, find, replace }: Patch): Promise<void> {
  const path = join(directory, file)
  const text = await readFile(path, 'utf8')
  const count = text.split(find).length - 1
  if (count !== 1) {
    throw new Error(`Expected to find this once in ${file}, found it ${count} times:\n${find}`)
  }
  await writeFile(
    path,
    text.replace(find, () => replace),
  )
}

async function missedByModel(rule: string): Promise<string | undefined> {
  const { code, stdout } = await run(ROOT, [
    ...['--import', 'tsx', 'test/model/main.ts', '--without', rule, '--json'],
  ])
  if (code !== 0) return undefined
  const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
    readonly broken: string
    readonly states: number
    readonly trace: readonly string[]
  }
  return `${last.broken} in ${last.trace.length} steps, ${last.states} states`
}

async function testsFail(directory: string, ...tests: readonly string[]): Promise<boolean> {
  const { code, stdout } = await run(directory, ['node_modules/vitest/vitest.mjs', 'run', ...tests])
  if (code !== 0 && !stdout.includes('failed')) throw new Error(`vitest did not run:\n${stdout}`)
  return code !== 0
}

interface Outcome {
  readonly code: number | null
  readonly stdout: string
}

function run(cwd: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, args, {
      cwd,
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: LIMIT_MS,
      signal: stopping.signal,
    })
    let stdout = ''
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString()
    })
    child.on('error', fail)
    child.on('close', (code) => {
      done({ code, stdout })
    })
  })
}

interface SimulationSummary {
  readonly seeds: number
  readonly failed: readonly {
    readonly seed: number
    readonly violations: readonly { readonly property: string }[]
  }[]
}

function parseSummary(stdout: string): SimulationSummary {
  try {
    return JSON.parse(stdout) as SimulationSummary
  } catch {
    throw new Error(`The simulation did not say how it went:\n${stdout.slice(0, 2_000)}`)
  }
}

// An interrupted run leaves its copies to `finally`, which only runs when the process ends by itself.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    stopping.abort()
  })
}
process.exitCode = await main()
