import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

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
