/** What a worker process of the benchmark does in any runtime: works as told, reports every run. */
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { serve } from '../../test/support/remote-process.ts'
import type { Calls, KeyedJob, Orders, Run, WorkerEvent } from './job.ts'

const REPORT_AFTER_MS = 5

export interface Working {
  /** Ends it and returns how many starts were in vain. */
  stop(): Promise<number>
}

/** `run` is the processor of every job; `completed` is called when the queue has its end. */
export type Work = (
  orders: Orders,
  run: (job: KeyedJob) => Promise<void>,
  completed: () => void,
) => Promise<Working>

export type Add = (orders: Orders, jobs: readonly KeyedJob[]) => Promise<void>

/** @param now the clock that all processes of the machine share. */
export function serveWorker(work: Work, add: Add, now: () => number = monotonicMs): void {
  let runs: Run[] = []
  let done = 0
  let reporting: NodeJS.Timeout | undefined
  let working: Working | undefined
  let cpu = process.cpuUsage()
  let announce = false
  const failed = new Set<string>()

  async function run({ key, nr, workMs, fails }: KeyedJob): Promise<void> {
    const startedAt = now()
    if (announce) tell({ report: 'entered', key, nr, at: startedAt })
    if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs))
    if (fails === true && !failed.has(`${key} ${nr}`)) {
      failed.add(`${key} ${nr}`)
      throw new Error('It fails the first time')
    }
    const endedAt = now()
    runs.push({ key, nr, startedAt, endedAt })
    if (announce) tell({ report: 'left', key, nr, at: endedAt })
  }

  function completed(): void {
    done++
    // A process that has nothing to do is asleep, as it would be without the benchmark.
    reporting ??= setTimeout(() => {
      reporting = undefined
      tell({ report: 'done', count: done })
    }, REPORT_AFTER_MS)
  }

  const tell: (event: WorkerEvent) => void = serve<Calls>({
    async add({ orders, jobs }) {
      await add(orders, jobs)
      return null
    },
    async work(orders) {
      runs = []
      done = 0
      announce = orders.announce === true
      working = await work(orders, run, completed)
      cpu = process.cpuUsage()
      return null
    },
    async stop() {
      const { user, system } = process.cpuUsage(cpu)
      const wasted = (await working?.stop()) ?? 0
      working = undefined
      return { runs, runsByProcess: [runs.length], wasted, cpuMs: (user + system) / 1_000 }
    },
  })
}
