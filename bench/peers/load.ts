/**
 * The libraries under comparison are dependencies of the package.json beside this file only, so
 * that nothing else in the project can meet them or their ioredis. They are loaded by name at run
 * time and typed by what is used of them.
 */
import { execFile } from 'node:child_process'
import type { EventEmitter } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { promisify } from 'node:util'

/** From their lockfile, where they are missing or older than it. */
export async function installPeers(): Promise<void> {
  const writtenAt = (file: string): number =>
    statSync(new URL(file, import.meta.url), { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (writtenAt('node_modules/.package-lock.json') > writtenAt('package-lock.json')) return
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund']
  console.error('Installing the libraries under comparison: npm ci --prefix bench/peers')
  const args = ['ci', '--prefix', import.meta.dirname, ...flags]
  await promisify(execFile)('npm', args, { timeout: 120_000 })
}

export async function loadPeer<Module>(name: string): Promise<Module> {
  return (await import(name)) as Module
}

/** Packages that are no peers. */
const OWN: Readonly<Record<string, string>> = {
  'bullmq-redlock': '../..',
  bullmq: '../../node_modules/bullmq',
  'ioredis 6': '../../node_modules/ioredis',
}

/** `package@version` of each. */
export function versionsOf(packages: readonly string[]): readonly string[] {
  return packages.map((one) => {
    const file = `${OWN[one] ?? `node_modules/${one}`}/package.json`
    const text = readFileSync(new URL(file, import.meta.url), 'utf8')
    const { name = '?', version = '?' } = JSON.parse(text) as Record<string, string>
    return `${name}@${version.replace(/^v/, '')}`
  })
}

/** A method of a library beside ours: what it takes is said where it is called. */
export type Method<Answer = unknown> = (...given: readonly unknown[]) => Promise<Answer>

export interface Emitter {
  on(event: string, listener: (about: never) => void): unknown
}

/** A client of ioredis 5. */
export interface PeerRedis extends EventEmitter {
  disconnect(): void
}

export interface PeerIoredis {
  readonly Redis: new (server: string | object, options?: object) => PeerRedis
}
