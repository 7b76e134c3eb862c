/** The worker processes of a run, from outside. */
import { fork, type ChildProcess } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import type { Command, Orders, Report, Tally } from './job.ts'

const START_LIMIT_MS = 30_000
const STOP_LIMIT_MS = 30_000
const LOAD_LIMIT_MS = 300_000

export class WorkerProcess {
  readonly #child: ChildProcess
  readonly #listeners = new Set<(report: Report) => void>()
  #done = 0

  /** `progress` emits `done` whenever jobs were completed. */
  static async start(progress: EventEmitter): Promise<WorkerProcess> {
    const child = fork(new URL('worker-child.ts', import.meta.url), [], {
      execArgv: ['--import', import.meta.resolve('tsx')],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const worker = new WorkerProcess(child, progress)
    await worker.next('ready', START_LIMIT_MS)
    return worker
  }

  private constructor(child: ChildProcess, progress: EventEmitter) {
    this.#child = child
    child.on('message', (message) => {
      const report = message as Report
      if (report.report === 'done') this.#done = report.count
      for (const listener of this.#listeners) listener(report)
      if (report.report === 'done') progress.emit('done')
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Jobs completed since it was told to work. */
  get done(): number {
    return this.#done
  }

  async work(orders: Orders): Promise<void> {
    this.#done = 0
    const working = this.next('working', START_LIMIT_MS)
    this.#send({ command: 'work', orders })
    await working
  }

  async stop(): Promise<Tally> {
    const stopped = this.next('stopped', STOP_LIMIT_MS)
    this.#send({ command: 'stop' })
    return (await stopped).tally
  }

  /** The next report of a kind. */
  next<Kind extends Report['report']>(
    kind: Kind,
    limitMs: number,
  ): Promise<Extract<Report, { readonly report: Kind }>> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(limit)
        this.#listeners.delete(listen)
        this.#child.off('exit', exited)
      }
      const exited = (): void => {
        end()
        reject(new Error(`A worker process ended before it was ${kind}`))
      }
      const listen = (report: Report): void => {
        if (report.report !== kind) return
        end()
        resolve(report as Extract<Report, { readonly report: Kind }>)
      }
      const limit = setTimeout(() => {
        end()
        reject(new Error(`A worker process was not ${kind} within ${limitMs} ms`))
      }, limitMs)
      this.#listeners.add(listen)
      this.#child.once('exit', exited)
    })
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  #send(command: Command): void {
    this.#child.send(command)
  }
}

export class Crew implements AsyncDisposable {
  readonly workers: readonly WorkerProcess[]
  readonly #progress: EventEmitter
  /** Those that were told to work. */
  #working: readonly WorkerProcess[] = []

  static async start(size: number): Promise<Crew> {
    const progress = new EventEmitter()
    const starting = Array.from({ length: size }, () => WorkerProcess.start(progress))
    return new Crew(await Promise.all(starting), progress)
  }

  private constructor(workers: WorkerProcess[], progress: EventEmitter) {
    this.workers = workers
    this.#progress = progress
  }

  get done(): number {
    return this.#working.reduce((sum, { done }) => sum + done, 0)
  }

  async work(orders: Orders, size: number = this.workers.length): Promise<void> {
    this.#working = this.workers.slice(0, size)
    await Promise.all(this.#working.map((worker) => worker.work(orders)))
  }

  /** Resolves when so many jobs are completed; sleeps until the workers report. */
  async completed(count: number): Promise<void> {
    const limit = AbortSignal.timeout(LOAD_LIMIT_MS)
    try {
      while (this.done < count) await once(this.#progress, 'done', { signal: limit })
    } catch (error) {
      throw new Error(`${this.done} of ${count} jobs were done in time`, { cause: error })
    }
  }

  async stop(): Promise<Tally> {
    const tallies = await Promise.all(this.#working.map((worker) => worker.stop()))
    const sum = (of: (tally: Tally) => number): number =>
      tallies.reduce((total, tally) => total + of(tally), 0)
    return {
      runs: tallies.flatMap(({ runs }) => runs).sort((a, b) => a.startedAt - b.startedAt),
      wasted: sum(({ wasted }) => wasted),
      heapBytes: sum(({ heapBytes }) => heapBytes),
      cpuMs: sum(({ cpuMs }) => cpuMs),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()))
  }
}
