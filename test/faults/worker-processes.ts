/** BullMQ workers in processes of their own, to be killed and replaced while their jobs run. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Queue, type Job } from 'bullmq'
import { LockedQueue } from '../../src/index.ts'
import type { WriteRecord } from './history.ts'
import type { CustomerJob, Sighting, Stop, WorkerSetup } from './job-states.ts'
import { leaseNameOf, storeAnomalies } from './judge.ts'
import { FencedStore } from './store.ts'
import { forkProgram } from '../support/programs.ts'

const LEAVE_LIMIT_MS = 15_000
const MAX_ADD_TRIES = 50

export class WorkerProcesses {
  readonly #setup: WorkerSetup
  readonly #seen: (sighting: Sighting) => void
  readonly #ready = new Set<ChildProcess>()
  readonly #children: ChildProcess[] = []

  /** `seen` is told where each job is. */
  constructor(
    setup: WorkerSetup,
    size: number,
    seen: (sighting: Sighting) => void = () => undefined,
  ) {
    this.#setup = setup
    this.#seen = seen
    for (let index = 0; index < size; index++) this.#children.push(this.#startWorker())
  }

  /** Whether every worker has begun to work. */
  get ready(): boolean {
    return this.#children.every((child) => this.#ready.has(child))
  }

  get pids(): readonly number[] {
    return this.#children.flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
  }

  async killOne(random: number): Promise<void> {
    const doomed = this.#children[Math.floor(random * this.#children.length)]
    if (doomed !== undefined) await this.#replace(doomed)
  }

  /**
   * Tells one worker to end, and starts another. Returns the time that it took; rejects over the
   * limit.
   */
  async stopOne(index: number, stop: Stop): Promise<number> {
    const child = this.#children[index]
    if (child === undefined || !this.#ready.has(child)) return 0
    const toldAt = performance.now()
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(LEAVE_LIMIT_MS) })
    child.send(stop)
    try {
      const [code] = (await exited) as [number | null]
      if (code !== 0) throw new Error(`it ended with ${String(code ?? child.signalCode)}`)
      return performance.now() - toldAt
    } catch (error) {
      child.kill('SIGKILL')
      const told = `worker ${child.pid ?? 0} was told to ${stop}: ${String(error)}`
      throw new Error(told, { cause: error })
    } finally {
      if (this.#children[index] === child) this.#children[index] = this.#startWorker()
    }
  }

  /** Each worker must end by itself. Returns what did not, in words. */
  async leave(): Promise<readonly string[]> {
    const left = this.#children.splice(0).map(async (child) => {
      if (child.exitCode !== null || child.signalCode !== null) return []
      const exited = once(child, 'exit', { signal: AbortSignal.timeout(LEAVE_LIMIT_MS) })
      child.kill('SIGTERM')
      try {
        await exited
        return []
      } catch {
        child.kill('SIGKILL')
        return [`worker ${child.pid ?? 0} did not end within ${LEAVE_LIMIT_MS} ms`]
      }
    })
    return (await Promise.all(left)).flat()
  }

  #startWorker(): ChildProcess {
    const program = new URL('worker-child.ts', import.meta.url)
    const child = forkProgram(program, [JSON.stringify(this.#setup)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    child.on('message', (message) => {
      const sighting = message as Sighting
      this.#seen(sighting)
      if (sighting.state === 'ready') this.#ready.add(child)
    })
    return child
  }

  /**
   * The new one has the place of the old one: whoever hurts another by its place meanwhile hurts
   * that one.
   */
  async #replace(child: ChildProcess): Promise<void> {
    const index = this.#children.indexOf(child)
    if (index < 0) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
    if (this.#children[index] === child) this.#children[index] = this.#startWorker()
  }
}

/** The queue from outside: what was added must be done, and what was done must be in the store. */
export class JobLedger {
  readonly #queue: LockedQueue<CustomerJob, string>
  readonly #plain: Queue<CustomerJob, string>
  readonly #store: FencedStore
  readonly #customers: readonly string[]
  #added = 0

  constructor(
    setup: Pick<WorkerSetup, 'queue' | 'connection' | 'namespace' | 'storeUrl'>,
    customers: readonly string[],
  ) {
    const { queue, connection, namespace, storeUrl } = setup
    this.#queue = new LockedQueue(queue, {
      connection,
      resource: ({ customer }) => customer,
      defaultJobOptions: { attempts: 1_000, backoff: { type: 'fixed', delay: 50 } },
    })
    this.#queue.on('error', () => undefined) // Its server is down on purpose at times.
    this.#plain = new Queue(queue, { connection })
    this.#plain.on('error', () => undefined)
    this.#store = new FencedStore(storeUrl, namespace)
    this.#customers = customers
  }

  get added(): number {
    return this.#added
  }

  /**
   * Adds jobs with names of their own, so that a batch whose outcome is unknown can be added again.
   */
  async add(count: number): Promise<void> {
    const jobs = Array.from({ length: count }, (_, index) => {
      const at = this.#added + index
      const customer = this.#customers[at % this.#customers.length] ?? ''
      return { name: 'append', data: { customer }, opts: { jobId: `j${at}` } }
    })
    for (let tries = 1; ; tries++) {
      try {
        await this.#queue.addBulk(jobs)
        this.#added += count
        return
      } catch (error) {
        if (tries === MAX_ADD_TRIES) throw error
        await delay(100)
      }
    }
  }

  /** Jobs that are still to be done. */
  async undone(): Promise<readonly Job<CustomerJob>[]> {
    const jobs = await this.#plain.getJobs(['waiting', 'prioritized', 'delayed', 'active'])
    return jobs.filter((job) => job as Job | undefined) // A job may go while the list is made.
  }

  completed(): Promise<number> {
    return this.#plain.getCompletedCount()
  }

  /** Jobs that are not done, with what they wait for. */
  async open(): Promise<readonly string[]> {
    const jobs = await this.#plain.getJobs(['active', 'delayed', 'waiting', 'failed'])
    return Promise.all(
      jobs.map(async (job) => {
        const { id, data, delay: delayMs, attemptsStarted, attemptsMade, stalledCounter } = job
        const { logs } = await this.#plain.getJobLogs(id ?? '')
        const runs = `${attemptsStarted} starts, ${attemptsMade} failed, ${stalledCounter} crashed`
        const why = logs.at(-1) ?? job.failedReason
        return `job ${id ?? '?'} of ${data.customer} is ${await job.getState()} (delay ${delayMs} ms, ${runs}): ${why}`
      }),
    )
  }

  /**
   * When all is quiet: every job is completed, once, with an entry in the store that nobody
   * overwrote.
   */
  async anomalies(): Promise<readonly string[]> {
    const jobs = await this.#plain.getCompleted(0, -1)
    const missing = this.#added - jobs.length
    const lost = missing === 0 ? [] : [`${missing} of ${this.#added} jobs are not completed`]
    const writes: readonly WriteRecord[] = jobs.map(({ data, returnvalue }) => ({
      lease: leaseNameOf(returnvalue),
      resource: data.customer,
      entry: returnvalue,
      accepted: true,
      trusted: true,
    }))
    const found = await Promise.all(
      this.#customers.map(async (customer) =>
        storeAnomalies(customer, await this.#store.log(customer), writes),
      ),
    )
    return [...lost, ...found.flat()]
  }

  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#plain.close()])
    this.#store.close()
  }
}
