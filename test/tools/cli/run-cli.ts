/**
 * The command line: a command runs in the test's own process, which is a hundred times cheaper than
 * a process each. What stays, `work` and the dashboard, is a process.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Readable } from 'node:stream'
import { runProgram } from '../../../src/tools/cli/program.ts'
import { nodeArgs } from '../../support/programs.ts'
import { Program } from '../../workers/program.ts'

const MAIN = 'src/tools/cli/main.ts'

export interface Said {
  readonly code: number
  readonly out: string
  readonly err: string
  /** Standard output as one JSON value. */
  // eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the test says what it is
  json<Value>(): Value
}

export interface CliOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Standard input; empty by default. */
  readonly input?: string
}

/** What a command sees in place of the test's `process.env`, `stdin`, `stdout` and `stderr`. */
interface Surroundings {
  readonly env: NodeJS.ProcessEnv
  readonly stdin: Readable
  out: string
  err: string
}

const surroundings = new AsyncLocalStorage<Surroundings>()
/** Commands have one exit code, that of the process: one runs after the other. */
let before: Promise<unknown> = Promise.resolve()

/** Runs a command to its end. */
export function cli(args: readonly string[], options: CliOptions = {}): Promise<Said> {
  const said = before.then(() => run(args, options))
  before = said.catch(() => undefined)
  return said
}

async function run(args: readonly string[], { env = {}, input = '' }: CliOptions): Promise<Said> {
  const { PATH, HOME } = process.env
  const seen = {
    env: { PATH, HOME, COLUMNS: '1000', ...env },
    stdin: Readable.from([input]),
    out: '',
    err: '',
  }
  const restore = surround()
  try {
    await surroundings.run(seen, () => runProgram(args))
  } catch (error) {
    if (!(error instanceof Exited)) throw error
  } finally {
    restore()
  }
  const code = Number(process.exitCode)
  process.exitCode = undefined
  return { code, out: seen.out, err: seen.err, json: () => JSON.parse(seen.out) as never }
}

/** In place of the end of the process. */
class Exited extends Error {}

/** Shows a command its surroundings, and the test its own. Returns how to end that. */
function surround(): () => void {
  const restores = [show('env'), show('stdin'), capture('stdout', 'out'), capture('stderr', 'err')]
  restores.push(
    replace(process, 'exit', (code) => {
      process.exitCode = code ?? undefined
      throw new Exited()
    }),
  )
  return () => {
    for (const restore of restores) restore()
  }
}

function show(name: 'env' | 'stdin'): () => void {
  const own = Object.getOwnPropertyDescriptor(process, name) ?? {}
  const get = (): unknown => surroundings.getStore()?.[name] ?? own.get?.call(process) ?? own.value
  Object.defineProperty(process, name, { get, configurable: true, enumerable: true })
  return () => Object.defineProperty(process, name, own)
}

function capture(name: 'stdout' | 'stderr', as: 'out' | 'err'): () => void {
  const stream = process[name]
  const write = stream.write.bind(stream) as (...args: unknown[]) => boolean
  return replace(stream, 'write', (...args: unknown[]) => {
    const seen = surroundings.getStore()
    if (seen === undefined) return write(...args)
    seen[as] += String(args[0])
    return true
  })
}

function replace<Owner, Name extends keyof Owner>(
  owner: Owner,
  name: Name,
  by: Owner[Name],
): () => void {
  const own = owner[name]
  owner[name] = by
  return () => (owner[name] = own)
}

/** The command line's program as a shell would start it. */
export function cliInShell(args: readonly string[]): string {
  return [process.execPath, ...nodeArgs(MAIN), ...args].map((arg) => `'${arg}'`).join(' ')
}

/** A command that is still running: wait for its lines, send it signals. */
export function runningCli(
  [command = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Program {
  const [module = '', ...flags] = args
  const compiled = command === 'work' ? [nodeArgs(module).at(-1) ?? '', ...flags] : args
  return new Program(MAIN, [command, ...compiled], env)
}
