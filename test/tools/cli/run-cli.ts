/** The command line as a child process: what it said, and how it ended. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { join } from 'node:path'
import { CLI_BUNDLE } from '../../support/cli-bundle.ts'
import { nodeArgs, Program } from '../../workers/program.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const SOURCE = 'src/tools/cli/main.ts'
export const COMPILED = 'dist/cli.js'
/** Compiled, where that is newer than every source: it starts in a third of the time. */
const MAIN = isBuilt(CLI_BUNDLE) ? CLI_BUNDLE : isBuilt(COMPILED) ? COMPILED : SOURCE

export interface Said {
  readonly code: number | null
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

/** Runs a command to its end. */
export async function cli(
  args: readonly string[],
  { env = {}, input = '' }: CliOptions = {},
): Promise<Said> {
  const child = spawn(process.execPath, [...nodeArgs(MAIN), ...args], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
  })
  child.stdin.on('error', () => undefined) // It may end before it has read everything.
  child.stdin.end(input)
  const [out, err] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  const parse = (): never => JSON.parse(out) as never
  return { code: child.exitCode, out, err, json: parse }
}

/** The command line's program as a shell would start it. */
export function cliInShell(args: readonly string[]): string {
  return [process.execPath, ...nodeArgs(MAIN), ...args].map((arg) => `'${arg}'`).join(' ')
}

/** A command that is still running: wait for its lines, send it signals. */
export function runningCli(args: readonly string[], env: NodeJS.ProcessEnv = {}): Program {
  // The modules of `work` are TypeScript here, and import the sources.
  return new Program(args[0] === 'work' ? SOURCE : MAIN, args, env)
}

/** The environment that names a fleet. On a busy machine a healthy server may answer late. */
export function fleetEnv(
  urls: readonly string[],
  namespace: string,
  queueUrl?: string,
): NodeJS.ProcessEnv {
  return {
    BULLMQ_REDLOCK_MASTERS: urls.join(','),
    BULLMQ_REDLOCK_NAMESPACE: namespace,
    BULLMQ_REDLOCK_TIMEOUT_MS: '5000',
    ...(queueUrl !== undefined && { BULLMQ_REDLOCK_QUEUE: queueUrl }),
  }
}

/** Whether a compiled program is newer than every source. */
export function isBuilt(program: string): boolean {
  const changedAt = (path: string): number =>
    statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  const newest = Math.max(...sources.map((path) => changedAt(join('src', path))))
  return changedAt(program) > newest
}
