/** The command line of the mutants; `--help` says what it takes. */
import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { SeededRandom } from '../sim/seeded-random.ts'
import { mutants, type Killer, type Mutant, type Patch } from './mutants.ts'

const USAGE = `Takes one rule away at a time; the test that is named for it must fail.

  npm run mutants -- [options]

  --rule TEXT    only rules whose name contains TEXT
  --sample N     only N of them, by chance
  --seed S       of the chance
  --jobs N       at a time (default 2)
  --json         one JSON object per mutant

Each mutant is a copy of the project in a temporary directory with one rule less. Its own test, or its seeds of the simulation,
run on it and nothing else. Exit code: 0 all were killed, 1 otherwise, 2 bad arguments.`

const ROOT = resolve(import.meta.dirname, '../..')
const COPIED = [
  'src',
  'test',
  'scripts',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
] as const
const stopping = new AbortController()
/** Longer than any test takes on a busy machine. */
const LIMIT_MS = 600_000

interface Verdict {
  readonly rule: string
  readonly killed: boolean
  /** Which tests failed, or which property of which seed; or why it was not killed. */
  readonly detail: string
  readonly seconds: number
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      rule: { type: 'string', default: '' },
      sample: { type: 'string' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e6)) },
      jobs: { type: 'string', default: '2' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  const [seed, jobs] = [Number(values.seed), Number(values.jobs)]
  const found = mutants.filter(({ rule }) => rule.includes(values.rule))
  const size = values.sample === undefined ? found.length : Number(values.sample)
  if (![seed, jobs, size].every(Number.isInteger) || jobs < 1 || size < 1 || found.length === 0) {
    console.error(USAGE)
    return 2
  }
  const queue = values.sample === undefined ? [...found] : sample(found, size, seed)
  const verdicts: Verdict[] = []
  const work = async (): Promise<void> => {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      if (stopping.signal.aborted) return
      const verdict = await judge(mutant)
      verdicts.push(verdict)
      const { rule, killed, detail, seconds } = verdict
      const words = `${killed ? 'killed  ' : 'SURVIVED'} ${rule}: ${detail} (${seconds} s)`
      console.log(values.json ? JSON.stringify(verdict) : words)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  const killed = verdicts.filter((verdict) => verdict.killed).length
  const chance = values.sample === undefined ? '' : ` (--sample ${size} --seed ${seed})`
  const closing = `${verdicts.length} of ${mutants.length} mutants: ${killed} killed, ${verdicts.length - killed} survived${chance}`
  if (!values.json) console.log(closing)
  return killed === verdicts.length ? 0 : 1
}

function sample(found: readonly Mutant[], size: number, seed: number): Mutant[] {
  const random = new SeededRandom(seed)
  const rest = [...found]
  const chosen: Mutant[] = []
  while (chosen.length < size && rest.length > 0) {
    chosen.push(...rest.splice(random.integer(0, rest.length - 1), 1))
  }
  return chosen
}

async function judge({ rule, patches, killedBy }: Mutant): Promise<Verdict> {
  const startedAt = performance.now()
  const directory = await mkdtemp(join(tmpdir(), 'redlock-mutant-'))
  try {
    for (const name of COPIED) {
      await cp(join(ROOT, name), join(directory, name), { recursive: true })
    }
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    for (const patch of patches) await apply(directory, patch)
    const failures = await failuresOf(killedBy, directory)
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    if (failures.length > 0) return { rule, killed: true, detail: failures.join(' · '), seconds }
    return { rule, killed: false, detail: `by ${JSON.stringify(killedBy)}`, seconds }
  } catch (error) {
    // A text that has moved, or a test that did not run: as bad as a survivor.
    return { rule, killed: false, detail: error instanceof Error ? error.message : '', seconds: 0 }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * @throws Error when the source has moved on, because a mutant that changes nothing is killed by
 * nothing.
 */
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

/** What the killer found, in words. @throws Error when it did not run at all. */
async function failuresOf(killer: Killer, directory: string): Promise<readonly string[]> {
  return 'seeds' in killer
    ? violations(directory, killer.seeds, killer.clocks)
    : failedTests(directory, killer.test, killer.name)
}

interface VitestResult {
  readonly numFailedTests: number
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly assertionResults: readonly { readonly status: string; readonly title: string }[]
  }[]
}

/** The first failure is enough. */
async function failedTests(
  directory: string,
  test: string,
  name: string | undefined,
): Promise<readonly string[]> {
  const report = join(directory, 'report.json')
  const only = name === undefined ? [] : ['-t', name]
  const stdout = await run(directory, [
    ...['node_modules/vitest/vitest.mjs', 'run', test, ...only, '--bail', '1'],
    ...['--reporter', 'json', '--outputFile', report],
  ])
  const text = await readFile(report, 'utf8').catch(() => '')
  if (text === '') throw new Error(`vitest did not run ${test}:\n${stdout}`)
  const { numFailedTests, numPassedTests, testResults } = JSON.parse(text) as VitestResult
  if (numFailedTests + numPassedTests === 0) {
    throw new Error(`No test of ${test} ran (${name ?? 'all of them'}):\n${stdout}${text}`)
  }
  return testResults.flatMap((file) =>
    file.assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ title }) => `${relative(directory, file.name)} (${title})`),
  )
}

interface SimulationSummary {
  readonly seeds: number
  readonly failed: readonly {
    readonly seed: number
    readonly violations: readonly { readonly property: string }[]
  }[]
}

async function violations(
  directory: string,
  seeds: number,
  clocks: string | undefined,
): Promise<readonly string[]> {
  const stdout = await run(directory, [
    ...['--import', 'tsx', 'test/sim/main.ts', '--fail-fast', '--json', '--jobs', '1'],
    ...['--seeds', String(seeds), ...(clocks === undefined ? [] : ['--clocks', clocks])],
  ])
  try {
    const { failed } = JSON.parse(stdout) as SimulationSummary
    return failed.map(
      ({ seed, violations: found }) =>
        `simulation, seed ${seed}: ${[...new Set(found.map(({ property }) => property))].join(' ')}`,
    )
  } catch {
    throw new Error(`The simulation did not say how it went:\n${stdout.slice(0, 2_000)}`)
  }
}

/** What it says on standard output and error. */
function run(cwd: string, args: readonly string[]): Promise<string> {
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
    child.on('close', () => {
      done(stdout)
    })
  })
}

// An interrupted run leaves its copies to `finally`, which only runs when the process ends by
// itself.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    stopping.abort()
  })
}
process.exitCode = await main()
