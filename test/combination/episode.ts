/** Runs a plan on real servers: its operations, then a time in which everything may end. */
import { setTimeout as delay } from 'node:timers/promises'
import { FlowProducer, Queue, Worker, type FlowJob, type Job, type JobsOptions } from 'bullmq'
import { Redis } from 'ioredis'
import {
  type LockedQueue,
  type Lease,
  type LimitOptions,
  type LockService,
} from '../../src/index.ts'
import { prefixesOf, shardOf } from '../../src/sharded/placement.ts'
import { audit, ratedResources } from './audit.ts'
import { Beside, isFault } from './beside.ts'
import { isInOneShard } from './draw.ts'
import type { Frail } from './frail.ts'
import { openHere, openInChild, type Freeze, type Hands } from './hands.ts'
import { newHistory, record, type Done, type Held, type History } from './history.ts'
import type { Action, ActionOf, JobData, JobPlan, Note, Operation, Plan, Producer } from './plan.ts'
import { censusOf, linesLeft, obliterate, openQueue, UNFINISHED, unfinishedIn } from './queues.ts'
import { machineMs } from './seen.ts'
import { cutConnection, type Command } from './worker-host.ts'
import { LEASE_MS, type Locks, type Servers } from './servers.ts'
import type { World } from './world.ts'

/** Every call must have answered in this time. */
const ANSWER_LIMIT_MS = 15_000
/** Once all was put right, everything has ended, or a job has started, in this time. */
const SETTLE_LIMIT_MS = 15_000
const REST_MS = 400
const BETWEEN_FLUSHES_MS = 300
const CLOSED_MS = 200
const QUIET_LIMIT_MS = 3_000
const LEASE_END_MS = 3_000
const POLL_MS = 10
/** What each action does. */
type Acts = {
  readonly [Kind in Action['do']]: (operation: ActionOf<Kind, Operation>, index: number) => unknown
}

export async function runEpisode(world: World, plan: Plan): Promise<History> {
  const harms = plan.operations.some(isFault)
  return world.with(harms, (servers, frail) => new Episode(world, plan, servers, frail).run())
}

let flushed: Promise<unknown> = Promise.resolve()

/** Episodes share servers. ioredis sends a script again only once, so two do not flush at once. */
async function flushScripts(redis: Redis): Promise<unknown> {
  const earlier = flushed
  flushed = earlier.then(() => delay(BETWEEN_FLUSHES_MS))
  await earlier
  return redis.script('FLUSH')
}

class Episode {
  readonly #world: World
  readonly #plan: Plan
  readonly #servers: Servers
  readonly #frail: Frail | undefined
  readonly #name: string
  readonly #prefix: string
  /** What all keys of the queue begin with: one for each shard. */
  readonly #bases: readonly string[]
  readonly #history: History
  readonly #connection: { readonly host: string; readonly port: number }
  readonly #producers: readonly [LockedQueue<JobData>, LockedQueue<JobData>]
  readonly #plain: Queue<JobData>
  /** For parents of flows; its worker is BullMQ's own. */
  readonly #other: Queue<JobData>
  #otherWorker: Worker<JobData> | undefined
  readonly #flows: FlowProducer
  /** Opened for its first jobs. */
  #beside: Beside | undefined
  readonly #redis: Redis
  readonly #workers: Hands[] = []
  /** Those that were closed, drained or killed. */
  readonly #left = new Set<Hands>()

  constructor(world: World, plan: Plan, servers: Servers, frail: Frail | undefined) {
    this.#world = world
    this.#plan = plan
    this.#servers = servers
    this.#frail = frail
    this.#name = world.nextName()
    const { shards } = plan.settings
    const isTogether = shards !== undefined && isInOneShard(plan)
    this.#prefix = isTogether ? `{${this.#name}}:` : `${this.#name}:`
    this.#history = newHistory(plan, this.#prefix, machineMs())
    this.#connection = servers.queue
    const { settings } = plan
    const { prefix } = settings
    const connection = { ...this.#connection, retryStrategy: () => 50 }
    const first = `${this.#prefix}r0`
    const prefixes = shards === undefined ? [prefix] : prefixesOf(prefix, shards)
    this.#bases = prefixes.map((each) => `${each}:${this.#name}:`)
    const open = (): LockedQueue<JobData> =>
      openQueue(this.#name, plan, this.#prefix, connection).on('error', (error) => {
        this.#error('queue', error)
      })
    this.#producers = [open(), open()]
    const home = prefixes[shardOf([first], prefixes.length)] ?? prefix
    this.#plain = new Queue<JobData>(this.#name, { connection, prefix: home })
    this.#other = new Queue<JobData>(`${this.#name}-other`, { connection, prefix })
    this.#flows = new FlowProducer({ connection, prefix: home })
    this.#redis = new Redis({ ...connection, maxRetriesPerRequest: null })
    const ignore = (): void => undefined
    this.#plain.on('error', ignore)
    this.#other.on('error', ignore)
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
      history.final = await censusOf(this.#queue, false)
      history.lines = await linesLeft(this.#redis, this.#bases)
      await this.#beside?.look()
      await this.#other.obliterate({ force: true })
      history.leftAfterObliterate = await obliterate(this.#queue, this.#redis, this.#bases)
    } catch (error) {
      history.failure = String(error)
    } finally {
      await this.#close()
    }
    history.lagMs = this.#world.lagSince(history.startedAt)
    return history
  }

  async #perform(operation: Operation, index: number): Promise<void> {
    const done: Done = { operation, index, at: machineMs() }
    this.#history.done.push(done)
    this.#beside?.hears(done)
    try {
      done.answer = await this.#act(operation, index)
    } catch (error) {
      done.error = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    } finally {
      done.endedAt = machineMs()
    }
    for (const base of this.#bases) {
      const found = await audit(this.#redis, base).catch(() => [])
      for (const detail of found) this.#history.audits.push({ at: done.endedAt, detail })
      const rated = await ratedResources(this.#redis, base).catch(() => [])
      for (const resource of rated) this.#history.rated.add(resource)
    }
    await this.#beside?.audit()
  }

  #act(operation: Operation, index: number): unknown {
    const act = this.#acts[operation.do] as (operation: Operation, index: number) => unknown
    return act(operation, index)
  }

  readonly #acts: Acts = {
    add: ({ by, job }) => this.#add(by, job),
    addBulk: async ({ by, jobs }) => {
      const added = await this.#producer(by).addBulk(jobs.map((job) => this.#entry(job)))
      return added.map((job) => this.#note(job.data.uid, job))
    },
    addBeside: (operation, index) => this.#openBeside().add(operation, index),
    flow: (flow) => this.#flow(flow),
    scheduler: async ({ by, id, everyMs, limit, job, offset, startMs, endMs }) => {
      const repeat = {
        ...{ every: everyMs, limit },
        ...(offset !== undefined && { offset }),
        ...(startMs !== undefined && { startDate: Date.now() + startMs }),
        ...(endMs !== undefined && { endDate: Date.now() + endMs }),
      }
      const added = await this.#producer(by).upsertJobScheduler(id, repeat, this.#entry(job))
      return added.id
    },
    removeScheduler: ({ id }) => this.#queue.removeJobScheduler(id),
    remove: ({ uid }) => this.#with(uid, (job) => job.remove()),
    removeById: async ({ by, uid }) =>
      (await this.#producer(by).remove(this.#idOf(uid))) === 1 ? 'done' : 'absent',
    deleteHash: ({ uid }) => {
      const id = this.#idOf(uid)
      // A worker that runs the job could end another one, which has its id by now.
      if (id.startsWith('own')) return 'absent'
      return this.#redis.del(...this.#bases.map((base) => base + id))
    },
    retryAll: ({ state }) => this.#queue.retryJobs({ state }),
    promoteAll: () => this.#queue.promoteJobs(),
    restQueue: ({ ms }) => this.#queue.rateLimit(ms),
    wakeQueue: () => this.#queue.removeRateLimitKey(),
    trimEvents: () => this.#queue.trimEvents(10),
    removeOrphans: () => this.#queue.removeOrphanedJobs(),
    globalConcurrency: ({ most }) =>
      this.#refusedWithShards(
        most === undefined
          ? this.#queue.removeGlobalConcurrency()
          : this.#queue.setGlobalConcurrency(most),
      ),
    globalRate: ({ most, ms = 1 }) =>
      this.#refusedWithShards(
        most === undefined
          ? this.#queue.removeGlobalRateLimit()
          : this.#queue.setGlobalRateLimit(most, ms),
      ),
    note: ({ uid, what }) => this.#noteOn(this.#idOf(uid), what),
    retry: ({ uid }) => this.#with(uid, (job) => job.retry('failed')),
    orphan: ({ uid }) => this.#with(uid, (job) => job.removeUnprocessedChildren()),
    promote: ({ uid }) => this.#with(uid, (job) => job.promote()),
    skip: ({ uid }) => this.#queue.skip(this.#idOf(uid)),
    look: ({ uid }) => this.#look(uid),
    changePriority: ({ uid, priority }) =>
      this.#with(uid, (job) => job.changePriority({ priority })),
    changeDelay: ({ uid, delayMs }) => this.#with(uid, (job) => job.changeDelay(delayMs)),
    updateData: ({ uid }) => this.#with(uid, (job) => job.updateData({ ...job.data, weight: 3 })),
    cancel: ({ uid, timeoutMs }) =>
      this.#queue.cancel(this.#idOf(uid), { reason: WHY.reason, timeoutMs }),
    cancelLine: ({ resource, timeoutMs }) =>
      this.#queue.cancel({ resource: this.#prefix + resource }, { reason: WHY.reason, timeoutMs }),
    pauseLine: ({ resource, forMs }) =>
      this.#queue.pauseResource(this.#prefix + resource, limitOptions(forMs)),
    resumeLine: ({ resource }) => this.#queue.resumeResource(this.#prefix + resource),
    setSlots: ({ resource, slots, forMs }) =>
      this.#queue.setSlots(this.#prefix + resource, slots, limitOptions(forMs)),
    resetSlots: ({ resource }) => this.#queue.resetSlots(this.#prefix + resource),
    setRate: ({ resource, limit, perMs, burst }) => {
      const rate = { limit, perMs, burst }
      return this.#queue.setRate(this.#prefix + resource, rate, limitOptions(undefined))
    },
    resetRate: ({ resource }) => this.#queue.resetRate(this.#prefix + resource),
    pauseQueue: () => this.#queue.pause(),
    resumeQueue: () => this.#queue.resume(),
    leaveLines: () => this.#queue.leaveLines(),
    census: () => this.#quietCensus(),
    flushScripts: () => flushScripts(this.#redis),
    obliterate: () => this.#queue.obliterate({ force: true }),
    restartQueue: () => this.#frail?.restartQueue(),
    failover: ({ lostMs }) => this.#frail?.failover(lostMs),
    faultQueue: ({ how, forMs }) => this.#frail?.faultQueue(how, forMs),
    faultMasters: ({ how, first, count, forMs }) =>
      this.#frail?.faultMasters(how, first, count, forMs),
    settle: () => this.#untilEnded(REST_MS),
    drainQueue: ({ delayed }) => this.#queue.drain(delayed),
    clean: ({ state }) => this.#queue.clean(0, 1_000, state),
    startWorker: ({ in: where }) => this.#startWorker(where),
    pauseWorker: ({ worker }) => this.#worker(worker)?.tell({ do: 'pause' }),
    resumeWorker: ({ worker }) => this.#worker(worker)?.tell({ do: 'resume' }),
    cut: ({ worker }) => this.#worker(worker)?.tell({ do: 'cut' }),
    kill: async ({ worker: index }) => {
      const worker = this.#worker(index)
      if (worker?.kill === undefined) return 'absent'
      this.#left.add(worker)
      const { frozenAt } = worker
      await worker.kill()
      this.#noteKilled(worker.name, frozenAt ?? machineMs())
      return worker.name
    },
    freezeWorker: async ({ worker, forMs }) =>
      (await this.#worker(worker)?.freeze?.(forMs)) ?? 'absent',
    closeWorker: ({ worker, force }) => this.#leave(worker, { do: 'close', force }),
    drainWorker: ({ worker, timeoutMs }) => this.#leave(worker, { do: 'drain', timeoutMs }),
    cancelHere: ({ worker, uid }) =>
      this.#worker(worker)?.tell({ do: 'cancel', id: this.#idOf(uid) }),
    cancelAllHere: ({ worker }) => this.#worker(worker)?.tell({ do: 'cancelAll' }),
    setConcurrency: ({ worker, most }) =>
      this.#worker(worker)?.tell({ do: 'setConcurrency', most }),
    ask: ({ worker, uid }) =>
      this.#worker(worker)?.tell({
        ...{ do: 'ask', id: this.#idOf(uid), resource: `${this.#prefix}r0` },
      }),
    stepClock: ({ worker, aheadMs }) => this.#worker(worker)?.tell({ do: 'stepClock', aheadMs }),
    cutProducer: ({ by }) => cutConnection(this.#producer(by)),
    hold: (operation) => this.#hold(operation),
  }

  async #flow({ parent, children, across, bulk }: ActionOf<'flow'>): Promise<unknown> {
    const node = (job: JobPlan): FlowJob => ({ ...this.#entry(job), queueName: this.#name })
    const root: FlowJob = {
      ...{ ...node(parent), children: children.map(node) },
      ...(across === true && { queueName: this.#openOther() }),
    }
    const tree =
      bulk === true ? (await this.#flows.addBulk([root]))[0] : await this.#flows.add(root)
    if (tree === undefined) return undefined
    for (const child of tree.children ?? []) {
      this.#note((child.job.data as JobData).uid, child.job as Job<JobData>)
    }
    return this.#note(parent.data.uid, tree.job as Job<JobData>)
  }

  async #refusedWithShards(call: Promise<unknown>): Promise<unknown> {
    if (this.#plan.settings.shards === undefined) return call
    const error: unknown = await call.catch((reason: unknown) => reason)
    if ((error as { code?: unknown } | undefined)?.code === 'SEVERAL_SHARDS') return 'absent'
    throw new Error('a sharded queue has not refused it')
  }

  #producer(by: Producer): Queue<JobData> {
    return by === 'plain' ? this.#plain : this.#producers[by]
  }

  async #add(by: Producer, plan: JobPlan): Promise<string> {
    const { name, data, opts } = this.#entry(plan)
    return this.#note(data.uid, await this.#producer(by).add(name, data, opts))
  }

  #note(uid: string, { id = '' }: { readonly id?: string | undefined }): string {
    this.#history.ids.set(uid, id)
    return id
  }

  /** As BullMQ is given it. */
  #entry({ data, opts }: JobPlan): { name: string; data: JobData; opts: JobsOptions } {
    const { timestamp, ...rest } = opts
    return {
      name: 'job',
      data: { ...data, resources: data.resources.map((name) => this.#prefix + name) },
      opts: { ...rest, ...(timestamp !== undefined && { timestamp: Date.now() + timestamp }) },
    }
  }

  /** Opens the queue of parents, and its worker. */
  #openOther(): string {
    const { prefix } = this.#plan.settings
    const connection = { ...this.#connection, retryStrategy: () => 50 }
    if (this.#otherWorker === undefined) {
      const run = ({ data }: Job<JobData>): Promise<void> => {
        this.#history.parents.push({ uid: data.uid, at: machineMs() })
        return Promise.resolve()
      }
      this.#otherWorker = new Worker(this.#other.name, run, {
        ...{ connection, prefix, maxStalledCount: 5 },
        // A failover may give it back a job that it has ended.
        ...{ drainDelay: 1, lockDuration: 2_000, stalledInterval: 400 },
      })
      this.#otherWorker.on('error', () => undefined)
    }
    return this.#other.name
  }

  #openBeside(): Beside {
    if (this.#beside === undefined) {
      const locks = this.#servers.locks.at(-1) as Locks
      this.#beside = new Beside({
        ...{ name: `${this.#name}-beside`, connection: this.#connection, locks },
        ...{ redis: this.#redis, history: this.#history },
        entry: (job) => this.#entry(job),
      })
      this.#history.beside = this.#beside.history
    }
    return this.#beside
  }

  async #noteOn(id: string, what: Note): Promise<unknown> {
    const queue = this.#queue
    if (what === 'progressById') return queue.updateJobProgress(id, 10)
    if (what === 'logById') return queue.addJobLog(id, 'noted')
    const job = await queue.getJob(id)
    if (what === 'progress') return job?.updateProgress(20)
    if (what === 'log') return job?.log('noted')
    if (what === 'clearLogs') return job?.clearLogs(1)
    await queue.removeDeduplicationKey('d0')
    return job?.removeDeduplicationKey()
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
    const first = `${this.#prefix}r0`
    const [position, state, counts, limits, ofFirst, holder] = await Promise.all([
      this.#queue.position(id),
      this.#queue.getJobState(id),
      this.#queue.getJobCounts(),
      this.#queue.getAllLimits(),
      this.#queue.getLimits(first),
      this.#servers.locks[0]?.inspect(first).catch(() => undefined),
    ])
    const isHeld = holder !== undefined && 'holder' in holder
    await this.#read(id)
    return { position, state, counts, limits: [...limits.keys()], ofFirst, isHeld }
  }

  /** What else can be asked. Each answers, whatever happens meanwhile. */
  async #read(id: string): Promise<void> {
    const queue = this.#queue
    await Promise.all([
      ...[queue.isMaxed(), queue.count(), queue.getRateLimitTtl(), queue.getVersion()],
      ...[queue.getGlobalConcurrency(), queue.getGlobalRateLimit(), queue.getMeta()],
      ...[queue.getDeduplicationJobId('d0'), queue.getCountsPerPriority([0, 1, 2])],
      ...[queue.getJobCountByTypes('waiting', 'delayed'), queue.getCompletedCount()],
      ...[queue.getFailedCount(), queue.getDelayedCount(), queue.getPrioritizedCount()],
      ...[queue.getWaitingCount(), queue.getWaitingChildrenCount(), queue.getWaiting()],
      ...[queue.getWaitingChildren(), queue.getActive(), queue.getDelayed()],
      ...[queue.getPrioritized(), queue.getCompleted(), this.#plain.getRanges(['wait'])],
      ...[queue.getJobLogs(id), queue.getWorkers(), queue.getWorkersCount()],
      ...[queue.getMetrics('completed'), queue.exportPrometheusMetrics()],
      ...[queue.getJobScheduler('s0'), queue.getJobSchedulersCount()],
    ])
    const job = await queue.getJob(id)
    if (job === undefined) return
    await Promise.all([
      ...[job.getState(), job.isCompleted(), job.isFailed(), job.isDelayed(), job.isActive()],
      ...[job.isWaiting(), job.isWaitingChildren(), job.getChildrenValues()],
      ...[job.getDependencies(), job.getIgnoredChildrenFailures()],
    ])
    await this.#flows.getFlow({ queueName: this.#name, id })
    job.toJSON()
  }

  #worker(index: number): Hands | undefined {
    const worker = this.#workers[index]
    return worker !== undefined && this.#left.has(worker) ? undefined : worker
  }

  async #leave(index: number, command: Command): Promise<string> {
    const worker = this.#worker(index)
    if (worker === undefined) return 'absent'
    this.#left.add(worker)
    await worker.tell(command)
    return worker.name
  }

  #noteKilled(name: string, at: number): void {
    for (const run of this.#history.runs.values()) {
      if (run.worker === name && run.ended === undefined) run.killedAt = at
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
      const { locks } = this.#servers
      const own = locks[this.#workers.length % locks.length] as Locks
      this.#workers.push(openHere(setup, own, seen))
    } else {
      const child = await this.#servers.takeChild()
      const giveBack = (): void => {
        this.#servers.returnChild(child)
      }
      this.#workers.push(await openInChild(child, setup, seen, giveBack))
    }
    return name
  }

  async #hold(operation: ActionOf<'hold'>): Promise<unknown> {
    const { forMs, waitMs, how, autoExtends, abortsAfterMs } = operation
    const [locks] = this.#servers.locks as [Locks]
    const names = operation.resources.map((name) => this.#prefix + name)
    // As the workers have them: who says nothing of slots takes another name.
    const { slots: count, slotsByJob } = this.#plan.settings
    const slots = slotsByJob ? 1 : count
    const hold = async (lease: Lease): Promise<Lease> => {
      const end = this.#noteHeld(names, lease)
      await delay(forMs / 2)
      if (operation.extends === true) await lease.extend().catch(() => undefined)
      await delay(forMs / 2)
      if (lease.remainingMs() > forMs) lease.assertHeld()
      end()
      return lease
    }
    const limits = { leaseMs: LEASE_MS, maxHoldMs: 2 * LEASE_MS, maxExtensions: 3 }
    const options = {
      ...{ ...limits, slots, waitMs, autoExtend: autoExtends ?? false },
      ...(abortsAfterMs !== undefined && { signal: AbortSignal.timeout(abortsAfterMs) }),
    }
    if (how === 'using' || how === 'nested') {
      await locks.using(names, options, (lease) =>
        how === 'using' ? hold(lease) : locks.using(names, options, hold),
      )
      return 'held'
    }
    let lease: Lease
    if (how === 'tryAcquire') {
      const { waitMs: _, signal: __, ...ofLease } = { signal: undefined, ...options }
      const outcome = await locks.tryAcquire(names, ofLease)
      if (outcome.status !== 'granted') return outcome.status
      lease = await hold(outcome.lease)
    } else lease = await hold(await locks.acquire(names, options))
    // Not every lock service has this.
    const service: LockService = locks
    const mayHandOver = operation.handsOver === true && lease.remainingMs() > 0
    const next = mayHandOver ? service.handOver?.(lease) : undefined
    if (next) lease = await hold(next)
    await lease.release()
    return 'held'
  }

  /** @returns what ends it. */
  #noteHeld(resources: readonly string[], lease: Lease): () => void {
    const shift = machineMs() - performance.now()
    const { fencingToken } = lease
    const held: Held = {
      ...{ resources, at: machineMs(), until: Infinity, fencingToken },
      trustedUntil: lease.trustedUntil + shift,
    }
    this.#history.held.push(held)
    return () => {
      held.trustedUntil = lease.trustedUntil + shift
      held.until = machineMs()
    }
  }

  /** Nothing is started while it counts. */
  async #quietCensus(): Promise<unknown> {
    await this.#queue.pause()
    const until = machineMs() + QUIET_LIMIT_MS
    while ((await this.#queue.getActiveCount()) > 0 && machineMs() < until) await delay(POLL_MS)
    const census = await censusOf(this.#queue, true)
    this.#history.censuses.push(census)
    await this.#queue.resume()
    return census.counts
  }

  /** Everything is put right, and a fresh worker comes. */
  async #settle(): Promise<void> {
    const history = this.#history
    await this.#frail?.right()
    const limits = await this.#queue.getAllLimits()
    // What is closed has time to start something all the same.
    const isClosed = [...limits.values()].some(({ paused }) => paused !== undefined)
    if (isClosed || (await this.#queue.isPaused())) await delay(CLOSED_MS)
    history.settlingAt = machineMs()
    for (const worker of this.#workers) {
      if (!this.#left.has(worker)) await worker.tell({ do: 'resume' }).catch(() => undefined)
    }
    for (const [resource, { rate }] of limits) {
      await this.#queue.resumeResource(resource)
      // The account of a rate that jobs brought begins anew with it.
      if (rate !== undefined) await this.#queue.resetRate(resource)
    }
    await Promise.all([
      this.#queue.resume(),
      this.#queue.removeRateLimitKey(),
      ...(this.#plan.settings.shards === undefined
        ? [this.#queue.removeGlobalConcurrency(), this.#queue.removeGlobalRateLimit()]
        : []),
    ])
    history.idleSchedulers = await this.#idleSchedulers()
    for (const { key } of await this.#queue.getJobSchedulers()) {
      await this.#queue.removeJobScheduler(key)
    }
    // A worker that stood still shall work on by itself, where it looks for stalled jobs.
    if (!this.#hasThawed() || this.#plan.settings.tuned) await this.#startWorker('process')
    const besideSettled = this.#beside?.settle(SETTLE_LIMIT_MS)
    const countRuns = (): number => history.runs.size + (history.beside?.runs.size ?? 0)
    for (let runs = -1; runs !== countRuns();) {
      runs = countRuns()
      if (await this.#untilEnded(SETTLE_LIMIT_MS)) break
    }
    history.settledAt = machineMs()
    await besideSettled
    if (this.#plan.settings.onFailure === 'block') await this.#skipFailed()
    history.unsettled = await this.#describeUnfinished()
  }

  #hasThawed(): boolean {
    const isThere = (name: string): boolean =>
      this.#workers.some((worker) => worker.name === name && !this.#left.has(worker))
    return this.#history.done.some(
      ({ operation, answer }) =>
        operation.do === 'freezeWorker' &&
        answer !== 'absent' &&
        isThere((answer as Freeze).worker),
    )
  }

  /** Schedulers that are not at their limit and have no next job. */
  async #idleSchedulers(): Promise<readonly string[]> {
    const until = machineMs() + REST_MS
    for (;;) {
      const idle: string[] = []
      for (const { key, next, limit, iterationCount } of await this.#queue.getJobSchedulers()) {
        const state = await this.#queue.getJobState(`repeat:${key}:${next}`)
        const isOpen = (UNFINISHED as readonly string[]).includes(state)
        if (!isOpen && (iterationCount ?? 0) < (limit ?? Infinity)) idle.push(key)
      }
      if (idle.length === 0 || machineMs() > until) return idle
      await delay(POLL_MS)
    }
  }

  async #untilEnded(limitMs: number): Promise<boolean> {
    const until = machineMs() + limitMs
    for (;;) {
      const counts = await Promise.all([this.#queue, this.#other].map(unfinishedIn))
      const open = counts.reduce((sum, each) => sum + each)
      if (open === 0 || open === (await this.#orphanedParents())) return true
      if (machineMs() >= until) return false
      if (this.#plan.settings.onFailure === 'block') await this.#skipFailed()
      await delay(POLL_MS)
    }
  }

  /** A parent whose hash another program deleted waits for its children for ever, as in BullMQ. */
  async #orphanedParents(): Promise<number> {
    if (!this.#plan.operations.some((operation) => operation.do === 'deleteHash')) return 0
    const state = 'waiting-children'
    const found = await this.#queue.getJobs([state])
    return ((await this.#queue.getJobCounts(state))[state] ?? 0) - found.length
  }

  async #skipFailed(): Promise<void> {
    for (const { id = '' } of await this.#queue.getFailed()) await this.#queue.skip(id)
  }

  async #describeUnfinished(): Promise<readonly string[]> {
    const jobs = await this.#queue.getJobs([...UNFINISHED])
    const parents = await this.#other.getJobs([...UNFINISHED])
    if (jobs.length + parents.length === 0) {
      const counts = await this.#queue.getJobCounts(...UNFINISHED)
      counts['waiting-children'] =
        (counts['waiting-children'] ?? 0) - (await this.#orphanedParents())
      const states = Object.keys(counts).filter((state) => counts[state] !== 0)
      return states.map((state) => `a job without a hash is ${state}`)
    }
    if (jobs.length === 0) return parents.map(({ data }) => `${data.uid}, in a plain queue`)
    return Promise.all(
      jobs.slice(0, 5).map(async ({ id = '', data }) => {
        const state = await this.#queue.getJobState(id)
        const position = await this.#queue.position(id)
        const hashes = await Promise.all(this.#bases.map((base) => this.#redis.hgetall(base + id)))
        const hash = Object.assign({}, ...hashes) as Record<string, string>
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
        const closed = worker.tell({ do: 'close', force: false }).then(() => true)
        if ((await within(ANSWER_LIMIT_MS, closed)) !== true)
          this.#history.unclosed.push(worker.name)
      })
    await Promise.all(closing)
    await within(ANSWER_LIMIT_MS, Promise.resolve(this.#beside?.closeWorker()))
  }

  async #leasesLeft(): Promise<readonly string[]> {
    const until = machineMs() + LEASE_END_MS
    for (;;) {
      const keys = await this.#servers.leases(this.#prefix)
      if (keys.length === 0 || machineMs() > until) return keys
      await delay(POLL_MS)
    }
  }

  async #close(): Promise<void> {
    for (const worker of this.#workers) {
      if (this.#left.has(worker)) continue
      await within(ANSWER_LIMIT_MS, worker.tell({ do: 'close', force: true }))
    }
    await this.#otherWorker?.close()
    await this.#beside?.close()
    const all = [...this.#producers, this.#plain, this.#other, this.#flows]
    await within(ANSWER_LIMIT_MS, Promise.all(all.map((each) => each.close())))
    this.#redis.disconnect()
  }
}

const WHY = { reason: 'drawn', by: 'the episode' } as const

function limitOptions(forMs: number | undefined): LimitOptions {
  return { ...WHY, ...(forMs !== undefined && { until: Date.now() + forMs }) }
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
