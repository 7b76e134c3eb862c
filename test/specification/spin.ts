/** Runs Spin: it makes a C program of a model, which visits every state. */
import { spawn } from 'node:child_process'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { findProgram } from '../../scripts/find-program.ts'
import { nameInModel, type Scope } from './models.ts'

export const SPECIFICATION: string = resolve(import.meta.dirname, '../../spec')

/** What has to be installed; undefined where nothing is missing. */
export function missing(): string | undefined {
  const needed = [
    ['spin', 'spin'],
    ['gcc', 'gcc libc6-dev'],
  ] as const
  const gone = needed.filter(([program]) => findProgram(program) === undefined)
  if (gone.length === 0) return undefined
  const [names, packages] = [gone.map(([name]) => name), gone.map(([, name]) => name)]
  return `${names.join(' and ')} not found: apt-get install ${packages.join(' ')}`
}

export interface Verdict {
  /** The property that does not hold; undefined where all do. */
  readonly broken: string | undefined
  readonly states: number
  readonly seconds: number
  /** The steps of a counterexample. */
  readonly steps: readonly string[]
}

/** `without`: a rule that is taken away. */
export async function verify({ model, defines }: Scope, without?: string): Promise<Verdict> {
  const directory = await mkdtemp(join(tmpdir(), 'redlock-spec-'))
  const startedAt = performance.now()
  const run = (program: string, args: readonly string[]): Promise<string> =>
    outputOf(directory, program, args)
  try {
    const all = without === undefined ? defines : [...defines, `WITHOUT=${nameInModel(without)}`]
    const options = all.map((define) => `-D${define}`)
    // Its trail is written, and looked for, by the name of the model.
    await copyFile(join(SPECIFICATION, `${model}.pml`), join(directory, `${model}.pml`))
    await run('spin', ['-a', ...options, `${model}.pml`])
    // Compiling well takes longer than most searches for a counterexample.
    const level = without === undefined || model === 'quorum' ? '-O1' : '-O0'
    const settings = [level, '-w', '-DSAFETY', '-DNOREDUCE', '-DCOLLAPSE', '-DMEMLIM=2000']
    await run('gcc', [...settings, '-o', 'pan', 'pan.c'])
    const said = await run('./pan', ['-m100000'])
    const states = Number(/(\d+) states, stored/.exec(said)?.[1])
    const errors = Number(/errors: (\d+)/.exec(said)?.[1])
    const isWhole = !/max search depth too small|Search not completed|out of memory/.test(said)
    if (!Number.isInteger(states) || (errors === 0 && !isWhole)) throw new Error(said)
    const broken = brokenIn(said)
    if ((errors === 0) !== (broken === undefined)) throw new Error(said)
    const steps = errors === 0 ? [] : stepsOf(await run('./pan', ['-r']))
    const seconds = Math.round((performance.now() - startedAt) / 100) / 10
    return { broken, states, seconds, steps }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

function brokenIn(said: string): string | undefined {
  if (said.includes('invalid end state (')) return 'none_forgotten'
  return /assertion violated (\w+)/.exec(said)?.[1]
}

const stepsOf = (replay: string): readonly string[] =>
  replay
    .split('\n')
    .map((text) => text.trim())
    .filter((text) =>
      /^(attempt|master \d runs|master \d restarts|time|the |job|worker|a sweep)/.test(text),
    )

async function outputOf(
  directory: string,
  program: string,
  args: readonly string[],
): Promise<string> {
  const child = spawn(program, args, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stdout.on('data', (data) => (said += String(data)))
  child.stderr.on('data', (data) => (said += String(data)))
  const code = await new Promise<number | null>((settle, fail) => {
    child.on('error', fail)
    child.on('close', settle)
  })
  // A replay ends as the search did: with the code of an error.
  if (code !== 0 && program !== './pan') throw new Error(`${program} failed: ${said}`)
  return said
}
