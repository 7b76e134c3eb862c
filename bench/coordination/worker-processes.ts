/** The worker processes of a run, from outside. */
import { fork, type ChildProcess } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { sum } from '../statistics.ts'
import type { Command, KeyedJob, Orders, Report, Sighting, Tally } from './job.ts'

const START_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 30_000
const LOAD_LIMIT_MS = 300_000

type ReportOf<Kind extends Report['report']> = Kind extends Sighting['report']
  ? Sighting
  : Extract<Report, { readonly report: Kind }>

/** What a worker process runs, and on what where that is not Node. */
export interface Kind {
  readonly file: string
  readonly program?: string
}

const NODE: Kind = { file: 'worker-child.ts' }

export class WorkerProcess {
  readonly #child: ChildProcess
  readonly #listeners = new Set<(report: Report) => void>()
  #done = 0

  /** `progress` emits `done` whenever jobs were completed. */
  static async start(progress = new EventEmitter(), kind: Kind = NODE): Promise<WorkerProcess> {
    const child = fork(new URL(kind.file, import.meta.url), [], {
      ...(kind.program === undefined
        ? { execArgv: [...profiling(), '--import', import.meta.resolve('tsx')] }
        : { execPath: kind.program, execArgv: [] }),
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

  async add(orders: Orders, jobs: readonly KeyedJob[]): Promise<void> {
    const added = this.next('added', START_LIMIT_MS)
    this.#send({ command: 'add', orders, jobs })
    await added
  }

  /** Ends the runs of held jobs. */
  release(): void {
    this.#send({ command: 'release' })
  }

  async stop(): Promise<Tally> {
    const stopped = this.next('stopped', STOP_LIMIT_MS)
    this.#send({ command: 'stop' })
    return (await stopped).tally
  }

  /** Calls `listener` for every report until the returned function is called. */
  listen(listener: (report: Report) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The next report of a kind that `matches`. */
  next<Kind extends Report['report']>(
    kind: Kind,
    limitMs: number,
    matches: (report: ReportOf<Kind>) => boolean = () => true,
  ): Promise<ReportOf<Kind>> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(limit)
        unlisten()
        this.#child.off('exit', exited)
      }
      const exited = (): void => {
        end()
        reject(new Error(`A worker process ended before it was ${kind}`))
      }
      const unlisten = this.listen((report) => {
        if (report.report !== kind || !matches(report as ReportOf<Kind>)) return
        end()
        resolve(report as ReportOf<Kind>)
      })
      const limit = setTimeout(() => {
        end()
        reject(new Error(`A worker process was not ${kind} within ${limitMs} ms`))
      }, limitMs)
      this.#child.once('exit', exited)
    })
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  /** Ends by itself, as it would at the end of the benchmark. */
  async leave(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }

  #send(command: Command): void {
    this.#child.send(command)
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
