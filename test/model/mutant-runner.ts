/**
 * Where mutants are judged: a copy of the project in a temporary directory, a change to it, and the
 * tests or the seeds of the simulation that should notice.
 */
import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import type { Killer } from './mutants.ts'

export const ROOT: string = resolve(import.meta.dirname, '../..')
const COPIED = [
  ...['deploy', 'src', 'test', 'scripts', 'workers', 'bench', 'package.json', 'tsconfig.json'],
  ...['vitest.config.ts'],
] as const
export const stopping: AbortController = new AbortController()
/** Longer than any test takes on a busy machine. */
const LIMIT_MS = 600_000

// An interrupted run leaves its copies to `finally`, which only runs when the process ends by
// itself.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    stopping.abort()
  })
}

/** Hands a copy of the project to `use`, and removes it. */
export async function withCopy<Result>(
  use: (directory: string) => Promise<Result>,
): Promise<Result> {
  const directory = await mkdtemp(join(tmpdir(), 'redlock-mutant-'))
  try {
    for (const name of COPIED) {
      await cp(join(ROOT, name), join(directory, name), { recursive: true })
    }
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    return await use(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Works on a list, so many at a time, until it is empty or the run is stopped. */
export async function inParallel<Item>(
  queue: Item[],
  jobs: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const lane = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      if (stopping.signal.aborted) return
      await work(item)
    }
  }
  await Promise.all(Array.from({ length: jobs }, lane))
}

/** What the killer found, in words. @throws Error when it did not run at all. */
export async function failuresOf(killer: Killer, directory: string): Promise<readonly string[]> {
  if ('seeds' in killer) return violations(directory, killer.seeds, killer.clocks)
  if ('episodes' in killer) return brokenRules(directory, killer.episodes)
  return failedTests(directory, killer.test, killer.name)
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
  name?: string,
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
  clocks?: string,
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

interface Broken {
  readonly seed: number
  readonly violations: readonly { readonly rule: string }[]
}

/** An episode in which the project breaks a rule with all of its rules, too, shows nothing. */
async function brokenRules(directory: string, episodes: number): Promise<readonly string[]> {
  for (let first = 1; first <= episodes;) {
    const found = await combine(directory, first, episodes - first + 1)
    for (const { seed, violations: broken } of found) {
      if ((await combine(ROOT, seed, 1)).length > 0) continue
      return [
        `combination, seed ${seed}: ${[...new Set(broken.map(({ rule }) => rule))].join(', ')}`,
      ]
    }
    first = found.length === 0 ? Infinity : 1 + Math.max(...found.map(({ seed }) => seed))
  }
  return []
}

async function combine(
  directory: string,
  first: number,
  count: number,
): Promise<readonly Broken[]> {
  const stdout = await run(directory, [
    ...['--import', 'tsx', 'test/combination/main.ts', '--fail-fast', '--json', '--no-shrink'],
    ...['--first', String(first), '--episodes', String(count)],
  ])
  try {
    return (JSON.parse(stdout) as { readonly failed: readonly Broken[] }).failed
  } catch {
    throw new Error(`The combinations did not say how it went:\n${stdout.slice(0, 2_000)}`)
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
