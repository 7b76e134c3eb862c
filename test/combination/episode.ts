/** Runs a plan on real servers: its operations, then a time in which everything may end. */
import { setTimeout as delay } from 'node:timers/promises'
import { FlowProducer, Queue, type FlowJob, type Job, type JobsOptions } from 'bullmq'
import { Redis } from 'ioredis'
import { LockedQueue, type Redlock } from '../../src/index.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { openHere, openInChild, type Hands } from './hands.ts'
import {
  newHistory,
  record,
  type Census,
  type Done,
  type Held,
  type History,
  type StoredJob,
} from './history.ts'
import type { JobData, JobPlan, Operation, Plan, Producer } from './plan.ts'
import { machineMs } from './seen.ts'
import { cutConnection } from './worker-host.ts'
import { LEASE_MS, type World } from './world.ts'

/** Every call must have answered in this time. */
const ANSWER_LIMIT_MS = 15_000
/** Everything must have ended this long after all was put right. */
const SETTLE_LIMIT_MS = 15_000
const REST_MS = 400
const CLOSED_MS = 200
const QUIET_LIMIT_MS = 3_000
const LEASE_END_MS = 3_000
const POLL_MS = 10
/** What PTTL says of a key without an end. */
const LASTS = -1
const STATES = [
  ...['active', 'waiting', 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed'],
] as const
const UNFINISHED = STATES.slice(0, 5)

export async function runEpisode(world: World, plan: Plan): Promise<History> {
  const restarts = plan.operations.some((each) => each.do === 'restartQueue')
  const run = async (server: TestServer): Promise<History> => {
    const episode = new Episode(world, plan, server)
    return episode.run()
  }
  return restarts ? world.alone(() => run(world.frail)) : run(world.fleet.queue)
}

class Episode {
  readonly #world: World
  readonly #plan: Plan
  readonly #server: TestServer
  readonly #name: string
  readonly #prefix: string
  readonly #history: History
  readonly #connection: { readonly host: string; readonly port: number }
  readonly #producers: readonly [LockedQueue<JobData>, LockedQueue<JobData>]
  readonly #plain: Queue<JobData>
  readonly #flows: FlowProducer
  readonly #redis: Redis
  readonly #workers: Hands[] = []
  /** One after the other. */
  #restarting: Promise<void> = Promise.resolve()
  /** Those that were closed, drained or killed. */
  readonly #left = new Set<Hands>()

  constructor(world: World, plan: Plan, server: TestServer) {
    this.#world = world
    this.#plan = plan
    this.#server = server
    this.#name = world.nextName()
    this.#prefix = `${this.#name}:`
    this.#history = newHistory(plan, this.#prefix, machineMs())
    this.#connection = { host: server.host, port: server.port }
    const { settings } = plan
    const { slots, slotsByJob, within, maxWaitMs, maxLength, whenFull, rate } = settings
    const connection = { ...this.#connection, retryStrategy: () => 50 }
    const first = `${this.#prefix}r0`
    const options = {
      ...{ connection, within, resource: (data: JobData) => data.resources },
      ...(slotsByJob
        ? {
            slots: ({ resources }: JobData) =>
              resources.length === 1 && resources[0] === first ? slots : { [first]: slots },
          }
        : slots > 1 && { slots }),
      ...(maxWaitMs !== undefined && { maxWaitMs }),
      ...(maxLength !== undefined && { maxLength, whenFull }),
      ...(rate !== undefined && { rate: () => rate }),
      ...(settings.tenant && { tenant: ({ tenant }: JobData) => tenant }),
      ...(settings.weight && { weight: ({ weight }: JobData) => weight }),
    }
    const open = (): LockedQueue<JobData> => {
      const queue = new LockedQueue<JobData>(this.#name, options)
      queue.on('error', (error) => {
        this.#error('queue', error)
      })
      return queue
    }
    this.#producers = [open(), open()]
    this.#plain = new Queue<JobData>(this.#name, { connection })
    this.#flows = new FlowProducer({ connection })
    this.#redis = new Redis({ ...connection, maxRetriesPerRequest: null })
    const ignore = (): void => undefined
    this.#plain.on('error', ignore)
    this.#flows.on('error', ignore)
    this.#redis.on('error', ignore)
  }

  get #queue(): LockedQueue<JobData> {
    return this.#producers[0]
  }

  #error(worker: string, { name, message }: Error): void {
    record(this.#history, {
      ...{ kind: 'error', worker, message: `${name}: ${message}`, at: machineMs() },
    })
  }

  async run(): Promise<History> {
    const history = this.#history
    try {
      await Promise.all([this.#queue.waitUntilReady(), this.#plain.waitUntilReady()])
      for (const where of this.#plan.settings.workers) await this.#startWorker(where)
      const pending: Promise<void>[] = []
      for (const [index, operation] of this.#plan.operations.entries()) {
        await delay(operation.afterMs)
        const answered = this.#perform(operation, index)
        if (operation.waits) await within(ANSWER_LIMIT_MS, answered)
        pending.push(answered)
      }
      await within(ANSWER_LIMIT_MS, Promise.all(pending))
      await this.#settle()
      await this.#closeWorkers()
      history.leases = await this.#leasesLeft()
      history.final = await this.#census(false)
      history.lines = await this.#linesLeft()
      history.leftAfterObliterate = await this.#obliterate()
    } finally {
      await this.#close()
    }
    history.lagMs = this.#world.lagSince(history.startedAt)
    return history
  }

  async #perform(operation: Operation, index: number): Promise<void> {
    const done: Done = { operation, index, at: machineMs() }
    this.#history.done.push(done)
    try {
      done.answer = await this.#act(operation)
    } catch (error) {
      done.error = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    } finally {
      done.endedAt = machineMs()
    }
  }

  async #act(operation: Operation): Promise<unknown> {
    const queue = this.#queue
    switch (operation.do) {
      case 'add':
        return this.#add(operation.by, operation.job)
      case 'addBulk': {
        const jobs = operation.jobs.map((job) => ({
          name: 'job',
          data: this.#dataOf(job),
          opts: this.#optsOf(job),
        }))
        const added = await this.#producer(operation.by).addBulk(jobs)
        return added.map((job) => this.#note(job.data.uid, job))
      }
      case 'flow': {
        const node = (job: JobPlan): FlowJob => ({
          ...{ name: 'job', queueName: this.#name, data: this.#dataOf(job) },
          opts: this.#optsOf(job),
        })
        const { parent, children } = operation
        const tree = await this.#flows.add({ ...node(parent), children: children.map(node) })
        for (const child of tree.children ?? []) {
          this.#note((child.job.data as JobData).uid, child.job as Job<JobData>)
        }
        return this.#note(parent.data.uid, tree.job as Job<JobData>)
      }
      case 'scheduler': {
        const { by, id, everyMs, limit, job } = operation
        const repeat = { every: everyMs, limit }
        const template = { name: 'job', data: this.#dataOf(job), opts: this.#optsOf(job) }
        const added = await this.#producer(by).upsertJobScheduler(id, repeat, template)
        return added.id
      }
      case 'removeScheduler':
        return queue.removeJobScheduler(operation.id)
      case 'remove':
        return this.#with(operation.uid, (job) => job.remove())
      case 'retry':
        return this.#with(operation.uid, (job) => job.retry('failed'))
      case 'promote':
        return this.#with(operation.uid, (job) => job.promote())
      case 'skip':
        return queue.skip(this.#idOf(operation.uid))
      case 'look':
        return this.#look(operation.uid)
      case 'changePriority':
        return this.#with(operation.uid, (job) =>
          job.changePriority({ priority: operation.priority }),
        )
      case 'changeDelay':
        return this.#with(operation.uid, (job) => job.changeDelay(operation.delayMs))
      case 'updateData':
        return this.#with(operation.uid, (job) => job.updateData({ ...job.data, weight: 3 }))
      case 'cancel':
        return queue.cancel(this.#idOf(operation.uid), { timeoutMs: operation.timeoutMs })
      case 'cancelLine':
        return queue.cancel(
          { resource: this.#prefix + operation.resource },
          { timeoutMs: operation.timeoutMs },
        )
      case 'pauseLine': {
        const { resource, forMs } = operation
        const until = forMs === undefined ? {} : { until: Date.now() + forMs }
        return queue.pauseResource(this.#prefix + resource, until)
      }
      case 'resumeLine':
        return queue.resumeResource(this.#prefix + operation.resource)
      case 'setSlots':
        return queue.setSlots(this.#prefix + operation.resource, operation.slots)
      case 'resetSlots':
        return queue.resetSlots(this.#prefix + operation.resource)
      case 'setRate': {
        const { limit, perMs, burst } = operation
        return queue.setRate(this.#prefix + operation.resource, { limit, perMs, burst })
      }
      case 'resetRate':
        return queue.resetRate(this.#prefix + operation.resource)
      case 'pauseQueue':
        return queue.pause()
      case 'resumeQueue':
        return queue.resume()
      case 'leaveLines':
        return queue.leaveLines()
      case 'census':
        return this.#quietCensus()
      case 'flushScripts':
        return this.#redis.script('FLUSH')
      case 'obliterate':
        return queue.obliterate({ force: true })
      case 'restartQueue':
        this.#restarting = this.#restarting.then(async () => {
          await this.#server.kill()
          await this.#server.restart()
        })
        return this.#restarting
      case 'settle':
        return this.#untilEnded(REST_MS)
      case 'drainQueue':
        return queue.drain(operation.delayed)
      case 'clean':
        return queue.clean(0, 1_000, operation.state)
      case 'startWorker':
        return this.#startWorker(operation.in)
      case 'pauseWorker':
        return this.#worker(operation.worker)?.pause()
      case 'resumeWorker':
        return this.#worker(operation.worker)?.resume()
      case 'cut':
        return this.#worker(operation.worker)?.cut()
      case 'kill': {
        const worker = this.#worker(operation.worker)
        if (worker === undefined || !worker.isChild) return 'absent'
        this.#left.add(worker)
        await worker.kill()
        this.#noteKilled(worker.name)
        return worker.name
      }
      case 'closeWorker':
        return this.#leave(operation.worker, (worker) => worker.close(operation.force))
      case 'drainWorker':
        return this.#leave(operation.worker, (worker) => worker.drain(operation.timeoutMs))
      case 'cancelHere':
        return this.#worker(operation.worker)?.cancel(this.#idOf(operation.uid))
      case 'stepClock':
        return this.#worker(operation.worker)?.stepClock(operation.byMs)
      case 'cutProducer':
        return cutConnection(this.#producer(operation.by))
      case 'hold':
        return this.#hold(operation)
    }
  }

  #producer(by: Producer): Queue<JobData> {
    return by === 'plain' ? this.#plain : this.#producers[by]
  }

  async #add(by: Producer, plan: JobPlan): Promise<string> {
    const { uid } = plan.data
    const opts = this.#optsOf(plan)
    return this.#note(uid, await this.#producer(by).add('job', this.#dataOf(plan), opts))
  }

  #note(uid: string, { id = '' }: { readonly id?: string | undefined }): string {
    this.#history.ids.set(uid, id)
    return id
  }

  #dataOf({ data }: JobPlan): JobData {
    return { ...data, resources: data.resources.map((name) => this.#prefix + name) }
  }

  #optsOf({ opts }: JobPlan): JobsOptions {
    return opts
  }

  #idOf(uid: string): string {
    return this.#history.ids.get(uid) ?? `no-job-${uid}`
  }

  async #with(uid: string, act: (job: Job<JobData>) => Promise<unknown>): Promise<unknown> {
    const job = await this.#queue.getJob(this.#idOf(uid))
    if (job === undefined) return 'absent'
    await act(job)
    return 'done'
  }

  async #look(uid: string): Promise<unknown> {
    const id = this.#idOf(uid)
    const [position, state, counts, limits] = await Promise.all([
      this.#queue.position(id),
      this.#queue.getJobState(id),
      this.#queue.getJobCounts(),
      this.#queue.getAllLimits(),
    ])
    return { position, state, counts, limits: [...limits.keys()] }
  }

  #worker(index: number): Hands | undefined {
    const worker = this.#workers[index]
    return worker !== undefined && this.#left.has(worker) ? undefined : worker
  }

  async #leave(index: number, act: (worker: Hands) => Promise<unknown>): Promise<string> {
    const worker = this.#worker(index)
    if (worker === undefined) return 'absent'
    this.#left.add(worker)
    await act(worker)
    return worker.name
  }

  #noteKilled(name: string): void {
    for (const run of this.#history.runs.values()) {
      if (run.worker === name && run.ended === undefined) run.killedAt = machineMs()
    }
  }

  async #startWorker(where: 'process' | 'child'): Promise<string> {
    const name = `w${this.#workers.length}`
    const setup = {
      ...{ name, queue: this.#name, connection: this.#connection, leaseMs: LEASE_MS },
      settings: this.#plan.settings,
    }
    const seen = (event: Parameters<typeof record>[1]): void => {
      record(this.#history, event)
    }
    if (where === 'process') {
      const { redlocks } = this.#world
      const redlock = redlocks[this.#workers.length % redlocks.length] as Redlock
      this.#workers.push(openHere(setup, redlock, seen))
    } else {
      const child = await this.#world.takeChild()
      const giveBack = (each: typeof child): void => {
        this.#world.returnChild(each)
      }
      this.#workers.push(await openInChild(child, setup, seen, giveBack))
    }
    return name
  }

  async #hold({
    resources,
    forMs,
    waitMs,
    how,
  }: Extract<Operation, { do: 'hold' }>): Promise<unknown> {
    const [redlock] = this.#world.redlocks as [Redlock]
    const names = resources.map((name) => this.#prefix + name)
    // As the workers have them: who says nothing of slots takes another name.
    const { slots: count, slotsByJob } = this.#plan.settings
    const slots = slotsByJob ? 1 : count
    const shift = machineMs() - performance.now()
    const hold = async (lease: {
      readonly fencingToken: number
      readonly trustedUntil: number
      readonly signal: AbortSignal
    }): Promise<void> => {
      const { fencingToken } = lease
      const at = machineMs()
      const held: Held = {
        ...{ resources: names, at, until: Infinity, fencingToken },
        trustedUntil: lease.trustedUntil + shift,
      }
      this.#history.held.push(held)
      await delay(forMs)
      held.trustedUntil = lease.trustedUntil + shift
      held.until = machineMs()
    }
    if (how === 'using') {
      await redlock.using(names, { waitMs, slots }, hold)
      return 'held'
    }
    if (how === 'tryAcquire') {
      const outcome = await redlock.tryAcquire(names, { slots })
      if (outcome.status !== 'granted') return outcome.status
      await hold(outcome.lease)
      await outcome.lease.release()
      return 'held'
    }
    const lease = await redlock.acquire(names, { waitMs, slots })
    await hold(lease)
    await lease.release()
    return 'held'
  }

  /** Nothing is started while it counts. */
  async #quietCensus(): Promise<unknown> {
    await this.#queue.pause()
    const until = machineMs() + QUIET_LIMIT_MS
    while ((await this.#queue.getActiveCount()) > 0 && machineMs() < until) await delay(POLL_MS)
    const census = await this.#census(true)
    this.#history.censuses.push(census)
    await this.#queue.resume()
    return census.counts
  }

  async #census(isQuiet: boolean): Promise<Census> {
    const queue = this.#queue
    const at = machineMs()
    const counts = await queue.getJobCounts(...STATES)
    const lists = await Promise.all(STATES.map((state) => queue.getJobs([state])))
    const listed = new Map<string, number>()
    const jobs: StoredJob[] = []
    for (const [index, list] of lists.entries()) {
      for (const job of list as (Job<JobData> | undefined)[]) {
        if (job === undefined) continue
        const { id = '', data, timestamp, attemptsMade, attemptsStarted, stalledCounter } = job
        listed.set(id, (listed.get(id) ?? 0) + 1)
        jobs.push({
          ...{ id, timestamp, attemptsMade, attemptsStarted, stalledCounter, uid: data.uid },
          ...{ state: STATES[index] ?? '', parentId: job.parent?.id },
          ...{
            failedReason: job.failedReason,
            returnvalue: job.returnvalue as unknown,
          },
        })
      }
    }
    return { at, isQuiet, counts, jobs, listed }
  }

  /** Everything is put right, and a fresh worker comes. */
  async #settle(): Promise<void> {
    const history = this.#history
    const limits = await this.#queue.getAllLimits()
    // What is closed has time to start something all the same.
    const isClosed = [...limits.values()].some(({ paused }) => paused !== undefined)
    if (isClosed || (await this.#queue.isPaused())) await delay(CLOSED_MS)
    history.settlingAt = machineMs()
    for (const worker of this.#workers) {
      if (!this.#left.has(worker)) await worker.resume().catch(() => undefined)
    }
    for (const resource of limits.keys()) {
      await this.#queue.resumeResource(resource)
      await this.#queue.resetRate(resource)
    }
    await this.#queue.resume()
    for (const { key } of await this.#queue.getJobSchedulers()) {
      await this.#queue.removeJobScheduler(key)
    }
    await this.#startWorker('process')
    await this.#untilEnded(SETTLE_LIMIT_MS)
    if (this.#plan.settings.onFailure === 'block') await this.#skipFailed()
    history.settledAt = machineMs()
    history.unsettled = await this.#describeUnfinished()
  }

  async #untilEnded(limitMs: number): Promise<boolean> {
    const until = machineMs() + limitMs
    for (;;) {
      const counts = await this.#queue.getJobCounts(...UNFINISHED)
      if (Object.values(counts).every((count) => count === 0)) return true
      if (machineMs() >= until) return false
      if (this.#plan.settings.onFailure === 'block') await this.#skipFailed()
      await delay(POLL_MS)
    }
  }

  async #skipFailed(): Promise<void> {
    for (const { id = '' } of await this.#queue.getFailed()) await this.#queue.skip(id)
  }

  async #describeUnfinished(): Promise<readonly string[]> {
    const jobs = await this.#queue.getJobs([...UNFINISHED])
    return Promise.all(
      jobs.slice(0, 5).map(async ({ id = '', data }) => {
        const state = await this.#queue.getJobState(id)
        const position = await this.#queue.position(id)
        const hash = await this.#redis.hgetall(`bull:${this.#name}:${id}`)
        const { data: _, opts: __, stacktrace: ___, ...rest } = hash
        return `${data.uid} (id ${id}) is ${state}, ahead ${position?.ahead}, ${JSON.stringify(rest)}`
      }),
    )
  }

  async #closeWorkers(): Promise<void> {
    const closing = this.#workers
      .filter((worker) => !this.#left.has(worker))
      .map(async (worker) => {
        this.#left.add(worker)
        await worker.close(false)
      })
    await within(ANSWER_LIMIT_MS, Promise.all(closing))
  }

  async #leasesLeft(): Promise<readonly string[]> {
    const until = machineMs() + LEASE_END_MS
    const { namespace } = this.#world.redlockSettings
    for (;;) {
      const found = await Promise.all(
        this.#world.masters.map((master) => master.keys(`${namespace}:lease:${this.#prefix}*`)),
      )
      const keys = [...new Set(found.flat())]
      if (keys.length === 0 || machineMs() > until) return keys
      await delay(POLL_MS)
    }
  }

  /** Deadlines go when their time comes. */
  async #linesLeft(): Promise<readonly string[]> {
    const keys = await this.#redis.keys(`bull:${this.#name}:redlock:*`)
    const found: string[] = []
    for (const key of keys) {
      const name = key.slice(`bull:${this.#name}:redlock:::`.length)
      if (!/^(line:|ready)/.test(name)) continue
      const members = await this.#redis.zrange(key, '0', '4')
      const places = members.filter((member) => member !== '!limits')
      if (places.length > 0) found.push(`${name}: ${places.join(', ')}`)
    }
    return found
  }

  async #obliterate(): Promise<readonly string[]> {
    await this.#queue.obliterate({ force: true })
    const keys = await this.#redis.keys(`bull:${this.#name}:*`)
    const lasting: string[] = []
    for (const key of keys) {
      // A producer that is open may compare its settings once more.
      if (key.endsWith(':redlock:::settings')) continue
      if ((await this.#redis.pttl(key)) === LASTS) lasting.push(key)
    }
    return lasting
  }

  async #close(): Promise<void> {
    for (const worker of this.#workers) {
      if (!this.#left.has(worker)) await within(ANSWER_LIMIT_MS, worker.close(true))
    }
    const all = [...this.#producers, this.#plain, this.#flows]
    await within(ANSWER_LIMIT_MS, Promise.all(all.map((each) => each.close())))
    this.#redis.disconnect()
  }
}

async function within<Value>(limitMs: number, work: Promise<Value>): Promise<Value | undefined> {
  const stop = new AbortController()
  const late = delay(limitMs, undefined, { signal: stop.signal }).catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    stop.abort()
  }
}
