/**
 * The libraries under comparison are dependencies of the package.json beside this file only, so
 * that nothing else in the project can meet them or their ioredis. They are loaded by name at run
 * time and typed by what is used of them.
 */
import { readFile } from 'node:fs/promises'

/** What the libraries and this comparison need of an ioredis 5 client. */
export interface PeerRedis {
  readonly status: string
  on(event: 'error', listener: (error: Error) => void): unknown
  once(event: 'ready', listener: () => void): unknown
  disconnect(): void
}

interface PeerIoredis {
  readonly Redis: new (
    url: string,
    options: { commandTimeout?: number; enableAutoPipelining?: boolean },
  ) => PeerRedis
}

const READY_LIMIT_MS = 1_000

export async function loadPeer<Module>(name: string): Promise<Module> {
  return (await import(name)) as Module
}

/** The version of a package that is installed here. */
export function peerVersion(name: string): Promise<string> {
  return versionIn(`node_modules/${name}`)
}

/** The name and version of the package in a directory. */
export async function versionIn(directory: string): Promise<string> {
  const file = new URL(`${directory}/package.json`, import.meta.url)
  const { name, version } = JSON.parse(await readFile(file, 'utf8')) as Record<string, string>
  return `${name ?? '?'}@${(version ?? '?').replace(/^v/, '')}`
}

interface Connections {
  readonly urls: readonly string[]
  readonly commandTimeoutMs?: number
  readonly autoPipelining?: boolean
}

/**
 * One client for each master with ioredis' defaults, which is how every one of the libraries
 * documents it.
 */
export async function connectAll(connections: Connections): Promise<readonly PeerRedis[]> {
  const { urls, commandTimeoutMs, autoPipelining } = connections
  const { Redis } = await loadPeer<PeerIoredis>('ioredis')
  const options = {
    ...(commandTimeoutMs !== undefined && { commandTimeout: commandTimeoutMs }),
    ...(autoPipelining !== undefined && { enableAutoPipelining: autoPipelining }),
  }
  const clients = urls.map((url) => {
    const client = new Redis(url, options)
    client.on('error', () => undefined) // Masters are down on purpose here.
    return client
  })
  await Promise.all(clients.map((client) => readyOrNot(client)))
  return clients
}

export function disconnectAll(clients: readonly PeerRedis[]): Promise<void> {
  for (const redis of clients) redis.disconnect()
  return Promise.resolve()
}

function readyOrNot(client: PeerRedis): Promise<void> {
  return new Promise((resolve) => {
    if (client.status === 'ready') resolve()
    const limit = setTimeout(resolve, READY_LIMIT_MS)
    client.once('ready', () => {
      clearTimeout(limit)
      resolve()
    })
  })
}

/**
 * The number of retries after which a library with this delay between them has tried for `waitMs`.
 */
export function retriesFor(waitMs: number, retryDelayMs: number): number {
  return Math.ceil(waitMs / retryDelayMs)
}
