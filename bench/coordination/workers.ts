/** The worker processes of a run, from outside. */
import { fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { RemoteProcess } from '../../test/support/remote-process.ts'
import { sum } from '../rounds.ts'
import type { Calls, KeyedJob, Orders, Tally, WorkerEvent } from './job.ts'
import type { Seen } from './judge.ts'
import { bunProgram } from './servers.ts'

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

export class Workers implements AsyncDisposable {
  readonly all: readonly Worker[]
  /** Jobs that each has completed since it was told to work. */
  readonly #done = new Map<Worker, number>()
  readonly #progress = new EventEmitter()
  #working: readonly Worker[] = []

  static async start(size: number, runtime: 'node' | 'bun' = 'node'): Promise<Workers> {
    return new Workers(await Promise.all(Array.from({ length: size }, () => startWorker(runtime))))
  }

  private constructor(all: readonly Worker[]) {
    this.all = all
    for (const worker of all) {
      worker.listen((event) => {
        if (event.report !== 'done') return
        this.#done.set(worker, event.count)
        this.#progress.emit('done')
      })
    }
  }

  /** Tells of every run's start and end until the returned function is called. */
  listen(listener: (seen: Seen) => void): () => void {
    const unlisten = this.all.map((worker, process) =>
      worker.listen((event) => {
        if (event.report !== 'done') listener({ ...event, process })
      }),
    )
    return () => {
      for (const end of unlisten) end()
    }
  }

  async add(orders: Orders, jobs: readonly KeyedJob[]): Promise<void> {
    await this.all[0]?.ask('add', { orders, jobs })
  }

  async work(orders: Orders, size: number = this.all.length): Promise<void> {
    this.#done.clear()
    this.#working = this.all.slice(0, size)
    await Promise.all(this.#working.map((worker) => worker.ask('work', orders)))
  }

  /** Resolves when that many jobs are completed; sleeps until the workers report. */
  async completed(count: number): Promise<void> {
    const limit = AbortSignal.timeout(LOAD_LIMIT_MS)
    const done = (): number => sum([...this.#done.values()])
    try {
      while (done() < count) await once(this.#progress, 'done', { signal: limit })
    } catch (error) {
      throw new Error(`${done()} of ${count} jobs were done in time`, { cause: error })
    }
  }

  /** With what each of them ran. */
  async stop(): Promise<Tally & { readonly each: readonly Tally[] }> {
    const each = await Promise.all(this.#working.map((worker) => worker.ask('stop', null)))
    const runs = each.flatMap((one) => one.runs).sort((a, b) => a.startedAt - b.startedAt)
    return { runs, cpuMs: sum(each.map(({ cpuMs }) => cpuMs)), each }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((worker) => worker.kill()))
  }
}
