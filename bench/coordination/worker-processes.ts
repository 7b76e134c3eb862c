/** The worker processes of a run, from outside. */
import { fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { RemoteProcess } from '../../test/support/remote-process.ts'
import { sum } from '../statistics.ts'
import type { Calls, KeyedJob, Orders, Sighting, Tally, WorkerEvent } from './job.ts'

const LOAD_LIMIT_MS = 300_000

/** What a worker process runs, and on what where that is not Node. */
export interface Kind {
  readonly file: string
  readonly program?: string
}

const NODE: Kind = { file: 'worker-child.ts' }

export class WorkerProcess {
  readonly #remote: RemoteProcess<Calls, WorkerEvent>
  #done = 0

  /** `progress` emits `done` whenever jobs were completed. */
  static async start(progress = new EventEmitter(), kind: Kind = NODE): Promise<WorkerProcess> {
    const child = fork(new URL(kind.file, import.meta.url), [], {
      ...(kind.program === undefined
        ? { execArgv: [...profiling(), '--import', import.meta.resolve('tsx')] }
        : { execPath: kind.program, execArgv: [] }),
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    return new WorkerProcess(await RemoteProcess.start('a worker', child), progress)
  }

  private constructor(remote: RemoteProcess<Calls, WorkerEvent>, progress: EventEmitter) {
    this.#remote = remote
    remote.listen((event) => {
      if (event.report !== 'done') return
      this.#done = event.count
      progress.emit('done')
    })
  }

  get pid(): number {
    return this.#remote.pid
  }

  /** Jobs completed since it was told to work. */
  get done(): number {
    return this.#done
  }

  async work(orders: Orders): Promise<void> {
    this.#done = 0
    await this.#remote.ask('work', orders)
  }

  async add(orders: Orders, jobs: readonly KeyedJob[]): Promise<void> {
    await this.#remote.ask('add', { orders, jobs })
  }

  stop(): Promise<Tally> {
    return this.#remote.ask('stop', null)
  }

  /** Tells `listener` of every run's start and end until the returned function is called. */
  listen(listener: (sighting: Sighting) => void): () => void {
    return this.#remote.listen((event) => {
      if (event.report !== 'done') listener(event)
    })
  }

  kill(): Promise<void> {
    return this.#remote.kill()
  }

  /** Ends by itself, as it would at the end of the benchmark. */
  async leave(): Promise<void> {
    await this.#remote.leave()
  }
}

/** With PROFILE_DIR set, every worker process leaves a CPU profile there. */
function profiling(): readonly string[] {
  const directory = process.env['PROFILE_DIR']
  return directory === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${directory}`]
}

export class WorkerProcesses implements AsyncDisposable {
  readonly all: readonly WorkerProcess[]
  readonly #progress: EventEmitter
  #working: readonly WorkerProcess[] = []

  static async start(size: number, kind: Kind = NODE): Promise<WorkerProcesses> {
    const progress = new EventEmitter()
    const starting = Array.from({ length: size }, () => WorkerProcess.start(progress, kind))
    return new WorkerProcesses(await Promise.all(starting), progress)
  }

  private constructor(all: WorkerProcess[], progress: EventEmitter) {
    this.all = all
    this.#progress = progress
  }

  /** The first one, for loads that need one process. */
  get one(): WorkerProcess {
    const [worker] = this.all
    if (worker === undefined) throw new Error('There is no worker process')
    return worker
  }

  get done(): number {
    return sum(this.#working.map(({ done }) => done))
  }

  async work(orders: Orders, size: number = this.all.length): Promise<void> {
    this.#working = this.all.slice(0, size)
    await Promise.all(this.#working.map((worker) => worker.work(orders)))
  }

  /** Resolves when that many jobs are completed; sleeps until the workers report. */
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
    return {
      runs: tallies.flatMap(({ runs }) => runs).sort((a, b) => a.startedAt - b.startedAt),
      runsByProcess: tallies.flatMap(({ runsByProcess }) => runsByProcess),
      wasted: sum(tallies.map(({ wasted }) => wasted)),
      cpuMs: sum(tallies.map(({ cpuMs }) => cpuMs)),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const profiled = profiling().length > 0 // A killed process writes no profile.
    await Promise.all(this.all.map((worker) => (profiled ? worker.leave() : worker.kill())))
  }
}
