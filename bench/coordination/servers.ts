/** The servers of the peers that need another one than the queue's Redis. */
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { noPostgres, startPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { freePort, returnPort, ServiceProcess } from '../../scripts/lock-servers/service-process.ts'
import type { Orders, Peer } from './job.ts'
import type { Kind } from './worker-processes.ts'

export interface QueueServer extends AsyncDisposable {
  readonly connection: Orders['connection']
  /** Drops what a load has left. */
  clear(queue: string): Promise<void>
}

const HOST = '127.0.0.1'
const peers = createRequire(new URL('../peers/package.json', import.meta.url))

/** What runs programs for Bun; its binary is a package for this platform. */
function bunProgram(): string {
  const { optionalDependencies = {} } = peers('bun/package.json') as {
    readonly optionalDependencies?: Readonly<Record<string, string>>
  }
  for (const name of Object.keys(optionalDependencies)) {
    try {
      return join(dirname(peers.resolve(`${name}/package.json`)), 'bin/bun')
    } catch {
      // It is for another platform.
    }
  }
  throw new Error('There is no Bun for this platform among the packages of bench/peers')
}

/** A worker process on Bun. */
export function onBun(): Kind {
  return { file: 'bun-worker-child.ts', program: bunProgram() }
}

/** @returns undefined for a peer whose groups are in the queue's Redis. */
export async function startQueueServer(peer: Peer): Promise<QueueServer | undefined> {
  if (peer === 'groupmq') return undefined
  return peer === 'bunqueue' ? startBroker() : startDatabase()
}

/** Each load has a schema, of the name of its queue. */
async function startDatabase(): Promise<QueueServer> {
  if (noPostgres) throw new Error('PostgreSQL is not installed: apt-get install postgresql')
  const server = await startPostgres()
  const client = new Client(server.url)
  await client.connect()
  return {
    connection: { host: HOST, port: server.port },
    async clear(queue) {
      await client.query(`DROP SCHEMA IF EXISTS ${client.escapeIdentifier(queue)} CASCADE`)
    },
    async [Symbol.asyncDispose]() {
      await client.end()
      await server.close()
    },
  }
}

/** Without a file, as the Redis of the others. */
async function startBroker(): Promise<QueueServer> {
  const port = await freePort()
  const httpPort = await freePort()
  const start = [
    bunProgram(),
    join(dirname(peers.resolve('bunqueue/package.json')), 'dist/cli/index.js'),
  ]
  const ports = ['--tcp-port', `${port}`, '--http-port', `${httpPort}`, '--host', HOST]
  const broker = await ServiceProcess.start({
    name: 'bunqueue',
    command: [...start, 'start', ...ports],
    isReady: () => answers(port),
  })
  return {
    connection: { host: HOST, port },
    clear: () => Promise.resolve(), // Jobs that are done are gone.
    async [Symbol.asyncDispose]() {
      await broker.close()
      returnPort(port)
      returnPort(httpPort)
    },
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, HOST)
  try {
    await once(socket, 'connect')
    return true
  } finally {
    socket.destroy()
  }
}
