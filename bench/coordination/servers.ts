/** The servers of the peers that need another one than the queue's Redis. */
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { startPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { freePort, returnPort, ServiceProcess } from '../../scripts/lock-servers/service-process.ts'
import type { Orders } from './job.ts'

export interface QueueServer extends AsyncDisposable {
  readonly connection: Orders['connection']
  /** Drops what a load has left. */
  clear(queue: string): Promise<void>
}

const HOST = '127.0.0.1'
const peers = createRequire(new URL('../peers/package.json', import.meta.url))

/** What runs programs for Bun; its binary is a package for this platform. */
export function bunProgram(): string {
  const { optionalDependencies } = peers('bun/package.json') as { optionalDependencies: object }
  for (const name of Object.keys(optionalDependencies)) {
    try {
      return join(dirname(peers.resolve(`${name}/package.json`)), 'bin/bun')
    } catch {
      // It is for another platform.
    }
  }
  throw new Error('There is no Bun for this platform among the packages of bench/peers')
}

/** Each load has a schema, of the name of its queue. */
export async function startDatabase(): Promise<QueueServer> {
  const server = await startPostgres()
  const client = server.client()
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

/** That of bunqueue, without a file, as the Redis of the others. */
export async function startBroker(): Promise<QueueServer> {
  const [port, httpPort] = [await freePort(), await freePort()]
  const program = join(dirname(peers.resolve('bunqueue/package.json')), 'dist/cli/index.js')
  const ports = ['--tcp-port', `${port}`, '--http-port', `${httpPort}`, '--host', HOST]
  const broker = await ServiceProcess.start({
    name: 'bunqueue',
    command: [bunProgram(), program, 'start', ...ports],
    async isReady() {
      const socket = connect(port, HOST)
      await once(socket, 'connect').finally(() => socket.destroy())
      return true
    },
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
