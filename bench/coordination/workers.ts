/** The worker processes of a run, from outside, and the servers that peers need of their own. */
import { fork } from 'node:child_process'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { EventEmitter, once } from 'node:events'
import { dirname, join } from 'node:path'
import { startPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { freePort, returnPort, ServiceProcess } from '../../scripts/lock-servers/service-process.ts'
import { RemoteProcess } from '../../test/support/remote-process.ts'
import { sum } from '../rounds.ts'
import type { Calls, KeyedJob, Orders, Tally, WorkerEvent } from './job.ts'
import type { Seen } from './judge.ts'

export interface QueueServer extends AsyncDisposable {
  readonly connection: Orders['connection']
  /** Drops what a load has left. */
  clear(queue: string): Promise<void>
}

const HOST = '127.0.0.1'
const peers = createRequire(new URL('../peers/package.json', import.meta.url))

/** What runs programs for Bun; its binary is a package for this platform. */
function bunProgram(): string {
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

const LOAD_LIMIT_MS = 300_000

type Worker = RemoteProcess<Calls, WorkerEvent>

function startWorker(runtime: 'node' | 'bun'): Promise<Worker> {
  const [file, options] =
    runtime === 'node'
      ? ['worker-child.ts', { execArgv: ['--import', import.meta.resolve('tsx')] }]
      : ['bun-worker-child.ts', { execPath: bunProgram(), execArgv: [] }]
  const child = fork(new URL(file, import.meta.url), [], {
    ...options,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  return RemoteProcess.start('a worker', child)
}

export async function startWorkers(size: number, runtime: 'node' | 'bun' = 'node') {
  const all = await Promise.all(Array.from({ length: size }, () => startWorker(runtime)))
  /** Jobs that each has completed since it was told to work. */
  const counts = new Map<Worker, number>()
  const progress = new EventEmitter()
  let working: readonly Worker[] = []
  for (const worker of all) {
    worker.listen((event) => {
      if (event.report !== 'done') return
      counts.set(worker, event.count)
      progress.emit('done')
    })
  }
  return {
    all,
    /** Tells of every run's start and end until the returned function is called. */
    listen(listener: (seen: Seen) => void): () => void {
      const unlisten = all.map((worker, process) =>
        worker.listen((event) => {
          if (event.report !== 'done') listener({ ...event, process })
        }),
      )
      return () => {
        for (const end of unlisten) end()
      }
    },
    async add(orders: Orders, jobs: readonly KeyedJob[]): Promise<void> {
      await all[0]?.ask('add', { orders, jobs })
    },
    async work(orders: Orders, processes: number = size): Promise<void> {
      counts.clear()
      working = all.slice(0, processes)
      await Promise.all(working.map((worker) => worker.ask('work', orders)))
    },
    /** Resolves when that many jobs are completed; sleeps until the workers report. */
    async completed(count: number): Promise<void> {
      const limit = AbortSignal.timeout(LOAD_LIMIT_MS)
      const done = (): number => sum([...counts.values()])
      try {
        while (done() < count) await once(progress, 'done', { signal: limit })
      } catch (error) {
        throw new Error(`${done()} of ${count} jobs were done in time`, { cause: error })
      }
    },
    /** With what each of them ran. */
    async stop(): Promise<Tally & { readonly each: readonly Tally[] }> {
      const each = await Promise.all(working.map((worker) => worker.ask('stop', null)))
      const runs = each.flatMap((one) => one.runs).sort((a, b) => a.startedAt - b.startedAt)
      return { runs, cpuMs: sum(each.map(({ cpuMs }) => cpuMs)), each }
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await Promise.all(all.map((worker) => worker.kill()))
    },
  }
}

export type Workers = Awaited<ReturnType<typeof startWorkers>>
