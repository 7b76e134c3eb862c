/** Which of the two ways to run servers this machine offers. Nothing is installed here. */
import { engineProblem } from './container-server.ts'
import type { Backend } from './test-server.ts'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

export type BackendChoice =
  | { readonly backend: 'processes'; readonly binary: ServerBinary }
  | { readonly backend: 'containers' }

/** What is known about the machine; tests put their own in its place. */
export interface Machine {
  /** The value of `FLEET`, which overrides the automatic choice. */
  readonly wish: string | undefined
  findBinary(): Promise<BinarySearch>
  /** Why no container can be started; undefined where one can. */
  engineProblem(): Promise<string | undefined>
}

export const thisMachine: Machine = {
  get wish() {
    return process.env['FLEET']
  },
  findBinary: () => findServerBinary(),
  engineProblem,
}

/** A server program on the PATH, else a Docker engine. */
export async function chooseBackend(
  backend?: Backend,
  machine: Machine = thisMachine,
): Promise<BackendChoice> {
  const wish = backend ?? parseWish(machine.wish)
  const reasons: string[] = []
  if (wish !== 'containers') {
    const search = await machine.findBinary()
    if (search.status === 'found') return { backend: 'processes', binary: search.binary }
    reasons.push('no redis-server or valkey-server (7.0 or newer) on the PATH', ...search.rejected)
  }
  if (wish !== 'processes') {
    const problem = await machine.engineProblem()
    if (problem === undefined) return { backend: 'containers' }
    reasons.push(problem)
  }
  throw new NoBackendError(wish, reasons)
}

/** Nothing on this machine can run a Redis server. */
export class NoBackendError extends Error {
  /** What was asked for, if anything was. */
  readonly wish: Backend | undefined
  /** One reason for every way that was tried. */
  readonly reasons: readonly string[]

  constructor(wish: Backend | undefined, reasons: readonly string[]) {
    const wished = wish === undefined ? '' : ` as ${wish}`
    const docker = 'start Docker; the servers then run in containers'
    super(
      [
        `Redis servers cannot be started${wished}:`,
        ...reasons.map((reason) => `  - ${reason}`),
        ...(wish === 'containers' ? [`Please ${docker}.`] : ['Install one of these:', ...REMEDIES]),
        ...(wish === undefined ? [`Or ${docker}.`] : []),
      ].join('\n'),
    )
    this.name = 'NoBackendError'
    this.wish = wish
    this.reasons = reasons
  }
}

const REMEDIES = [
  '  Debian, Ubuntu 24.04 or newer:  apt-get install redis-server',
  '  Fedora, RHEL 10:                dnf install valkey',
  '  Alpine:                         apk add redis',
  '  Arch:                           pacman -S valkey',
  '  macOS:                          brew install redis',
]

function parseWish(wish: string | undefined): Backend | undefined {
  if (wish === undefined || wish === '') return undefined
  if (wish === 'processes' || wish === 'containers') return wish
  throw new TypeError(`Expected FLEET to be processes or containers, got \`${wish}\``)
}

const NAMES = ['redis-server', 'valkey-server'] as const
const LOWEST_MAJOR = 7
const VERSION_LIMIT_MS = 10_000

/** A server program that is new enough. */
export interface ServerBinary {
  readonly path: string
  readonly version: string
}

export type BinarySearch =
  | { readonly status: 'found'; readonly binary: ServerBinary }
  /** With a reason for every program of that name that was not taken. */
  | { readonly status: 'missing'; readonly rejected: readonly string[] }

/** Looks on the PATH for redis-server or valkey-server, 7.0 or newer. */
export async function findServerBinary(
  searchPath: string = process.env['PATH'] ?? '',
): Promise<BinarySearch> {
  const directories = searchPath.split(delimiter).filter((directory) => directory !== '')
  const rejected: string[] = []
  for (const path of NAMES.flatMap((name) => directories.map((dir) => join(dir, name)))) {
    if (!existsSync(path)) continue
    const version = await versionOf(path)
    if (version !== undefined && Number.parseInt(version, 10) >= LOWEST_MAJOR) {
      return { status: 'found', binary: { path, version } }
    }
    rejected.push(
      `${path} ${version === undefined ? 'tells no version' : `is ${version}, too old`}`,
    )
  }
  return { status: 'missing', rejected }
}

/** `Redis server v=7.0.15 sha=...` and `Valkey server v=8.0.1 sha=...` have the same shape. */
async function versionOf(path: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)(path, ['--version'], { timeout: VERSION_LIMIT_MS })
    return /\bv=(\d+[\d.]*)/.exec(stdout)?.[1]
  } catch {
    return undefined
  }
}
