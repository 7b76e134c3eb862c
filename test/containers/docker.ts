/** Docker's own programs, as a person would type them. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { findProgram } from '../../scripts/find-program.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const COMMAND_LIMIT_MS = 900_000
const PULL_LIMIT_MS = 180_000

export interface Said {
  readonly code: number
  readonly out: string
  readonly err: string
}

export function run(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  timeout = COMMAND_LIMIT_MS,
): Promise<Said> {
  return new Promise((resolve) => {
    const options = { cwd: ROOT, env: { ...process.env, ...env }, timeout, maxBuffer: 64 << 20 }
    const child = execFile(program, args, options, (error, out, err) => {
      resolve({ code: error === null ? 0 : (child.exitCode ?? -1), out, err })
    })
  })
}

export const docker = (...args: readonly string[]): Promise<Said> => run('docker', args)

/** The standard output of a command that must succeed. */
export async function output(said: Promise<Said>): Promise<string> {
  const { code, out, err } = await said
  if (code !== 0) throw new Error(`Docker ended with ${code}:\n${err}\n${out}`)
  return out
}

/**
 * How compose is called here: the plugin, else the program of its own; undefined where there is
 * none.
 */
export async function findCompose(): Promise<readonly [string, ...string[]] | undefined> {
  if ((await docker('compose', 'version')).code === 0) return ['docker', 'compose']
  return findProgram('docker-compose') === undefined ? undefined : ['docker-compose']
}

/** Why no container can be started here, if none can. */
export async function findEngineObstacle(): Promise<string | undefined> {
  if (findProgram('docker') === undefined) return 'docker is not installed'
  return (await docker('info')).code === 0 ? undefined : 'no Docker engine answers'
}

/** Of these images, those that are neither here nor can be pulled. */
export async function missingImages(images: readonly string[]): Promise<readonly string[]> {
  const missing: string[] = []
  for (const image of images) {
    if ((await docker('image', 'inspect', image)).code === 0) continue
    const { code } = await run('docker', ['pull', '--quiet', image], {}, PULL_LIMIT_MS)
    if (code !== 0) missing.push(image)
  }
  return missing
}
