/** What a worker process of the benchmark does in any runtime: works as told, reports every run. */
import { once } from 'node:events'
import { monotonicMs } from '../../test/faults/monotonic.ts'
import type { Command, KeyedJob, Orders, Report, Run, Tally } from './job.ts'

const REPORT_AFTER_MS = 5

export interface Working {
  /** Ends it and returns how many starts were in vain. */
  stop(): Promise<number>
}

/** `run` is the processor of every job; `completed` is called when the queue has its end. */
export type Work = (
  orders: Orders,
  run: (job: KeyedJob, lease?: { readonly signal: AbortSignal }) => Promise<void>,
  completed: () => void,
) => Promise<Working>

export type Add = (orders: Orders, jobs: readonly KeyedJob[]) => Promise<void>

let runs: Run[] = []
let done = 0
let reporting: NodeJS.Timeout | undefined
let working: Working | undefined
let cpu = process.cpuUsage()
let announce = false
const failed = new Set<string>()
/** Aborted by `release`; a held job that starts after that does not wait. */
let hold = new AbortController()

function send(report: Report): void {
  // The benchmark may let this process go while a report is on its way.
  if (process.connected) process.send?.(report, () => undefined)
}

function completed(): void {
  done++
  // A process that has nothing to do is asleep, as it would be without the benchmark.
  reporting ??= setTimeout(() => {
    reporting = undefined
    send({ report: 'done', count: done })
  }, REPORT_AFTER_MS)
}

/** @param now the clock that all processes of the machine share. */
export function serveWorker(work: Work, add: Add, now: () => number = monotonicMs): void {
  // A signal is made for who asks for it, so only a held job does: BullMQ's processors have none.
  async function run(job: KeyedJob, lease?: { readonly signal: AbortSignal }): Promise<void> {
    const { key, nr, workMs, held, fails } = job
    const startedAt = now()
    if (announce) send({ report: 'entered', key, nr, at: startedAt })
    if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs))
    if (held === true && !hold.signal.aborted)
      await once(hold.signal, 'abort', { signal: lease?.signal })
    if (fails === true && !failed.has(`${key} ${nr}`)) {
      failed.add(`${key} ${nr}`)
      throw new Error('It fails the first time')
    }
    const endedAt = now()
    runs.push({ key, nr, startedAt, endedAt })
    if (announce) send({ report: 'left', key, nr, at: endedAt })
  }

  async function obey(message: Command): Promise<void> {
    switch (message.command) {
      case 'release':
        hold.abort()
        return
      case 'add':
        await add(message.orders, message.jobs)
        send({ report: 'added' })
        return
      case 'work':
        runs = []
        done = 0
        hold = new AbortController()
        announce = message.orders.announce === true
        working = await work(message.orders, run, completed)
        cpu = process.cpuUsage()
        send({ report: 'working' })
        return
      case 'stop':
        send({ report: 'stopped', tally: await stop() })
    }
  }

  process.on('SIGINT', () => undefined) // Ctrl-C is for the benchmark, which then ends its workers.
  process.on('disconnect', () => process.exit())
  process.on('message', (message: Command) => {
    void obey(message)
  })
  send({ report: 'ready' })
}

async function stop(): Promise<Tally> {
  const { user, system } = process.cpuUsage(cpu)
  const wasted = (await working?.stop()) ?? 0
  working = undefined
  return { runs, runsByProcess: [runs.length], wasted, cpuMs: (user + system) / 1_000 }
}
