/** What a worker process of the benchmark does in any runtime: works as told, reports every run. */
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { serve } from '../../test/support/remote-process.ts'
import type { Calls, KeyedJob, PeerQueue, Run, WorkerEvent } from './job.ts'

const REPORT_AFTER_MS = 5

/** @param now the clock that all processes of the machine share. */
export function serveWorker(queue: PeerQueue, now: () => number = monotonicMs): void {
  let runs: Run[] = []
  let done = 0
  let reporting: NodeJS.Timeout | undefined
  let working: Awaited<ReturnType<PeerQueue['work']>> | undefined
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
      await queue.add(orders, jobs)
      return null
    },
    async work(orders) {
      runs = []
      done = 0
      announce = orders.announce === true
      working = await queue.work(orders, run, completed)
      cpu = process.cpuUsage()
      return null
    },
    async stop() {
      const { user, system } = process.cpuUsage(cpu)
      await working?.stop()
      clearTimeout(reporting) // A count of this load must not come while the next one runs.
      reporting = undefined
      return { runs, cpuMs: (user + system) / 1_000 }
    },
  })
}
