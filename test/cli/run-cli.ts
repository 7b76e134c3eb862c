/** The command line as a child process: what it said, and how it ended. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { join } from 'node:path'
import { Program } from '../workers/program.ts'

const MAIN = 'src/cli/main.ts'
const ROOT = join(import.meta.dirname, '..', '..')

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
  const child = spawn(process.execPath, ['--import', 'tsx', MAIN, ...args], {
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

/** A command that is still running: wait for its lines, send it signals. */
export function runningCli(args: readonly string[], env: NodeJS.ProcessEnv = {}): Program {
  return new Program(MAIN, args, env)
}

/** The environment that names a fleet. */
export function fleetEnv(
  urls: readonly string[],
  namespace: string,
  queueUrl?: string,
): NodeJS.ProcessEnv {
  return {
    BULLMQ_REDLOCK_MASTERS: urls.join(','),
    BULLMQ_REDLOCK_NAMESPACE: namespace,
    ...(queueUrl !== undefined && { BULLMQ_REDLOCK_QUEUE: queueUrl }),
  }
}
