/**
 * `npm run dev`: servers, a worker that starts again when its code changes, the dashboard, and
 * jobs to look at. Ctrl-C ends all of it.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { provisionServer } from '../scripts/provision-server.ts'
import { aboveZero, integer, readOptions } from '../scripts/read-options.ts'
import { LockedQueue } from '../src/index.ts'
import { QUEUE, resourceOf, type Order } from './dev-worker.ts'
import { Closing, watchSignals } from './demo/stopping.ts'
import { startNewFleet } from './new-fleet.ts'
import { runProgram } from './run-program.ts'

const HELP = `Starts what a developer needs: three lock masters, the queue, a worker that reloads, the dashboard, and jobs.

  npm run dev -- [options]

  --port N       of the dashboard (default 4280; 0 for a free one)
  --every-ms N   how often a job is added (default 150)`

const CUSTOMERS = 12
const MAX_WORK_MS = 120
const MAX_LEASE_MS = 30_000
const MAX_WAITING = 200

async function main(): Promise<number> {
  const { port, everyMs } = readOptions(HELP, { port: integer(4_280, 0), everyMs: aboveZero(150) })
  const stopping = watchSignals()
  const closing = new Closing()
  try {
    await provisionServer({ install: true, say: console.log })
    const { fleet } = await startNewFleet(3, { maxLeaseMs: MAX_LEASE_MS }, closing)
    const env = {
      BULLMQ_REDLOCK_MASTERS: fleet.urls.join(),
      BULLMQ_REDLOCK_QUEUE: fleet.queue.url,
      BULLMQ_REDLOCK_MAX_LEASE_MS: String(MAX_LEASE_MS),
    }
    for (const [name, value] of Object.entries(env)) console.log(`export ${name}=${value}`)
    const worker = fileURLToPath(new URL('dev-worker.ts', import.meta.url))
    watched(['work', worker, '--drain-ms', '2000'], env, closing)
    watched(['dashboard', '--port', String(port)], env, closing)
    const queue = new LockedQueue<Order>(QUEUE, {
      connection: { url: fleet.queue.url },
      resource: resourceOf,
    })
    closing.add(() => queue.close())
    while (!stopping.signal.aborted) {
      if ((await queue.getWaitingCount()) < MAX_WAITING) await queue.add('order', order())
      await delay(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
    return (await stopping.stopped) === 'SIGINT' ? 130 : 143
  } finally {
    await closing.run()
    stopping.forget()
  }
}

/** A few customers order much, and some seldom. */
function order(): Order {
  return {
    customer: Math.floor(Math.random() ** 2 * CUSTOMERS),
    workMs: Math.ceil(Math.random() * MAX_WORK_MS),
  }
}

/** A command of the command line that starts again when its code changes. */
function watched(args: readonly string[], env: NodeJS.ProcessEnv, closing: Closing): void {
  const tsx = fileURLToPath(import.meta.resolve('tsx/cli'))
  const cli = fileURLToPath(new URL('../src/tools/cli/main.ts', import.meta.url))
  const child = fork(tsx, ['watch', '--clear-screen=false', cli, ...args], {
    env: { ...process.env, ...env },
    execArgv: [],
    // Watching, it would wait for Return on standard input.
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  closing.add(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
}

await runProgram(main)
