/**
 * Every state of a job, a line, a queue, a worker and a fleet × everything that answers: the
 * commands, the page, `/readyz`, a worker, a queue and a Redlock. The answer is true, names the
 * command to type, and is the same in text, in JSON and in the exit code. Outages of servers are in
 * `test/stories/outage-table.test.ts`.
 */
import { once } from 'node:events'
import type { Queue } from 'bullmq'
import { DelayedError, FlowProducer } from 'bullmq'
import { expect, it, vi } from 'vitest'
import type { LockedQueue } from '../../../src/index.ts'
import {
  LockedWorker,
  Redlock,
  silentLogger,
  type LineEntry,
  type LockedWorkerOptions,
} from '../../../src/index.ts'
import { systemClock } from '../../../src/clock.ts'
import { healthPages, voteCount } from '../../../src/tools/cli/work/health.ts'
import type { Diagnosis } from '../../../src/tools/operator/diagnosis.ts'
import { FleetProbe } from '../../../src/tools/operator/fleet-probe.ts'
import { fleetView } from '../../../src/tools/operator/lock-view.ts'
import { granted, until, useFleet, type Fixture } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { cli, runningCli, type Said } from '../cli/run-cli.ts'
import type { ResourcePage } from '../../../src/tools/operator/resource-view.ts'
import type { JobDetail } from '../../../src/tools/operator/jobs.ts'
import type { JobExplanation } from '../../../src/tools/operator/queue-view.ts'
import { serve } from '../dashboard/harness.ts'
import type { DashboardState } from '../../../src/tools/dashboard/state.ts'
import { openRedis } from '../cli/open-redis.ts'

vi.setConfig({ testTimeout: 120_000 })

assertNoLeaks()
/** Kept on disk: else `doctor` finds that. */
const kept = { appendonly: 'yes', appendfsync: 'everysec' }
const fixture: Fixture = useFleet({ masters: 3, config: kept })
const WAIT = { timeout: 10_000 }
const LONG = { leaseMs: 20_000, maxLeaseMs: 20_000 }

interface Data {
  readonly customer: number
  /** Further customers. */
  readonly also?: readonly number[]
  readonly fails?: boolean
}

const resource = ({ customer, also = [] }: Data): string[] =>
  [customer, ...also].map((each) => `customer:${each}`)

interface Own {
  readonly quick?: boolean
  readonly redlock?: Redlock
}

/** What a state is made of. */
class Scene {
  readonly queue: string = `q-${fixture.namespace}`
  /** Those that are not closed, each with its Redlock. */
  readonly workers = new Map<LockedWorker<Data>, Redlock>()
  readonly #connection = { url: fixture.fleet.queue.url }
  #producer: LockedQueue<Data> | undefined

  get producer(): LockedQueue<Data> {
    const options = { connection: this.#connection, resource }
    return (this.#producer ??= fixture.lockedQueue<Data>(options, this.queue))
  }

  async add(customer = 1, more: Partial<Data> = {}, options = {}): Promise<string> {
    return (await this.producer.add('post', { customer, ...more }, options)).id ?? ''
  }

  /** Its jobs run until the test ends; `quick` ones end at once. */
  async work(options: Partial<LockedWorkerOptions<Data>> & Own = {}): Promise<LockedWorker<Data>> {
    const { quick = false, ...more } = options
    const { passed } = fixture.gate()
    const redlock = more.redlock ?? (await fixture.redlock(LONG))
    const worker = new LockedWorker<Data>(
      this.queue,
      async (job, lease) => {
        const { data } = job
        if (data.fails === true) throw new Error('card declined.')
        if (data.customer === 6) {
          await job.moveToDelayed(Date.now() + 600_000, lease)
          throw new DelayedError()
        }
        if (data.customer === 5) throw await lease.rateLimit(600_000)
        if (!quick) await passed
      },
      {
        resource: ({ data }) => resource(data),
        ...{ connection: this.#connection, ...more, redlock },
      },
    )
    this.workers.set(worker, redlock)
    worker.on('error', () => undefined)
    fixture.defer(() => worker.close())
    return worker
  }

  /** Jobs of the queue have been quick until now, so there could be an estimate. */
  async wasQuick(): Promise<void> {
    const worker = await this.work({ quick: true })
    const before = await this.producer.getCompletedCount()
    for (let n = 0; n < 3; n++) await this.add(9)
    await until(
      'they are done',
      async () => (await this.producer.getCompletedCount()) >= before + 3,
    )
    await worker.close()
    this.workers.delete(worker)
  }

  /** A job of the first customer fails. */
  async fail(worker: LockedWorker<Data>, options = {}): Promise<string> {
    const failed = once(worker, 'failed')
    const id = await this.add(1, { fails: true }, options)
    await failed
    return id
  }

  /** A job of the customer runs until the test ends. */
  async busy(customer = 1): Promise<string> {
    const id = await this.add(customer)
    await until('it runs', async () => (await this.producer.getJobState(id)) === 'active')
    return id
  }

  /** A job whose worker, of another process, is gone. */
  async abandoned(signal: NodeJS.Signals): Promise<string> {
    const { fleet, env: named } = fixture
    const env = { ...named, QUEUE: this.queue }
    const child = runningCli(['work', 'test/tools/cli/ledger-worker-child.ts'], env)
    fixture.defer(() => child[Symbol.asyncDispose]())
    const id = await this.add(1, { customerId: 1, isDeaf: true } as object)
    await child.line(new RegExp(`started ${id} `))
    child.kill(signal)
    // What the end of a lease does.
    await openRedis(fleet.queue.url, fixture).pexpire(`bull:${this.queue}:${id}:lock`, 1)
    return id
  }

  plain(): Queue {
    return fixture.plainQueue(this.queue, { connection: this.#connection })
  }

  async flow(): Promise<string> {
    const flows = fixture.closing(new FlowProducer({ connection: this.#connection }))
    const of = { queueName: this.queue, data: { customer: 1 } }
    const { job } = await flows.add({ name: 'whole', ...of, children: [{ name: 'part', ...of }] })
    return job.id ?? ''
  }
}

/** Another client has it until the test ends. */
async function leaseOf(owner: string, resource: string): Promise<void> {
  await granted(await fixture.redlock({ ...LONG, owner }), resource)
}

/** What the commands say of a state. */
interface Answers {
  /** The job that is asked about; without one, `why` is not asked. */
  readonly job?: string
  readonly why?: RegExp
  readonly whyCode?: number
  /** What a worker says; by default, as `why`. */
  readonly whyOfWorker?: RegExp
  /** `why` gives an estimate. */
  readonly estimate?: boolean
  /** Of `customer:1`: what the command says of its lease. */
  readonly inspect?: RegExp
  /** The line of `customer:1`: a row for each job, its state and what it waits for. */
  readonly line?: RegExp
  /** Why the first waiting job of that line does not run; by default, as `why`. */
  readonly whyOfFirst?: RegExp
  /** Findings but notes and those of this machine, and `long-wait`. */
  readonly doctor?: readonly string[]
  readonly doctorSays?: RegExp
  readonly doctorCode?: number
  readonly limits?: RegExp
  /** Of `/readyz`, where a worker runs: 503, and why. */
  readonly notReady?: RegExp
}

const RUNS_FIRST = /^active: nothing: it is being processed\nwaiting: its turn: 1 ahead of it$/
const WAITS_FOR_A_WORKER = {
  why: /\(waiting\) is first in line for `customer:1` and waits for a free worker\.\n$/,
  line: /^waiting: a free worker$/,
}
const BACKS_OFF =
  /first in line for `customer:1` and waits for its delay or backoff to end, at 20\d\d-\S+Z\. The last attempt of job \S+ failed: card declined\.\n$/

const STATES: Readonly<Record<string, (scene: Scene) => Promise<Answers>>> = {
  'a job: waits while every worker is busy': async (scene) => {
    await scene.wasQuick()
    await scene.work({ concurrency: 1 })
    await scene.busy(2)
    return {
      job: await scene.add(),
      ...WAITS_FOR_A_WORKER,
    }
  },
  'a job: behind one that runs': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    const first = await scene.busy()
    return {
      job: await scene.add(),
      why: new RegExp(
        `its turn: 1 ahead of it\\. Job ${first} has been in progress since 20\\d\\d-`,
      ),
      estimate: true,
      line: RUNS_FIRST,
    }
  },
  'a job: behind one whose worker is stopped': async (scene) => {
    await scene.wasQuick()
    const first = await scene.abandoned('SIGSTOP')
    const takenOver = 'a worker that takes it over: its worker has not renewed its lock, so it is'
    return {
      job: await scene.add(),
      why: new RegExp(`its turn: 1 ahead of it\\. Job ${first} waits for ${takenOver} stopped`),
      line: new RegExp(`^active: ${takenOver} stopped.*\\nwaiting: its turn: 1 ahead of it$`),
    }
  },
  'a job: its worker is dead, and there is no other': async (scene) => {
    const job = await scene.abandoned('SIGKILL')
    return {
      job,
      why: /waits for a worker that takes it over: .* dead\. No worker of queue `\S+` is connected\. To go on: start one\.\n$/,
      line: /^active: a worker that takes it over/,
    }
  },
  'a job: behind more than are looked at': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    const first = await scene.busy()
    const jobs = Array.from({ length: 120 }, () => ({ name: 'post', data: { customer: 1 } }))
    const added = await scene.producer.addBulk(jobs)
    return {
      job: added.at(-1)?.id ?? '',
      why: new RegExp(`in line for .* its turn: 120 ahead of it\\. Job ${first} has been in`),
      estimate: true,
      whyOfFirst: /its turn: 1 ahead of it/,
      line: /^active: nothing.*\n(waiting: its turn.*\n)+waiting: its turn: 99 ahead of it$/,
    }
  },
  'a job of two resources: behind one in the first of its lines': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    const first = await scene.busy(2)
    return {
      job: await scene.add(2, { also: [1] }),
      why: new RegExp(
        `line for .customer:2. and waits for its turn: 1 ahead of it. Job ${first} has`,
      ),
      estimate: true,
      line: /^waiting: its turn: 1 ahead of it, in line for `customer:2`$/,
    }
  },
  'a job of two resources: the first is paused': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    await scene.producer.pauseResource('customer:2')
    return {
      job: await scene.add(2, { also: [1] }),
      why: /first in line for `customer:2` and waits for its resource to be resumed by `bullmq/,
      line: /^waiting: its resource to be resumed by `bullmq-.+ customer:2`: .*, in line for `cust/,
      limits: /customer:2 +paused/,
    }
  },
  'a job of two resources: another client has the lease of the first': async (scene) => {
    await leaseOf('script-7', 'customer:2')
    await scene.work()
    return {
      job: await scene.add(2, { also: [1] }),
      why: /for `customer:2` and waits for the lease of script-7|lease is held by script-7/,
      line: /^(delayed: (the lease of script-7 .* extended, in line for `customer:2`|its delay .*|nothing: .* in line for `customer:2`)|active: nothing: .*)$/,
      inspect: /customer:1 is free/,
    }
  },
  'a job of a resource with slots: waits while every worker is busy': async (scene) => {
    await scene.wasQuick()
    await scene.producer.setSlots('customer:1', 4)
    await leaseOf('script-7', 'customer:1')
    await scene.work({ concurrency: 1 })
    await scene.busy(2)
    return {
      job: await scene.add(),
      ...WAITS_FOR_A_WORKER,
      limits: /4 slots/,
    }
  },
  'a job of a resource with slots: runs beside another': async (scene) => {
    await scene.wasQuick()
    await scene.producer.setSlots('customer:1', 2)
    await scene.work({ concurrency: 2 })
    await scene.busy()
    return {
      job: await scene.busy(),
      why: /\(active\) has been in progress since 20\d\d-\S+Z, and is in line for `customer:1`\.\n$/,
      line: /^(active: nothing: it is being processed\n?){2}$/,
      inspect: /customer:1 has slots: 2 are held/,
      limits: /2 slots/,
    }
  },
  'a job of a resource with slots: other clients have all': async (scene) => {
    await scene.wasQuick()
    await scene.producer.setSlots('customer:1', 2)
    await leaseOf('script-7', 'customer:1')
    await leaseOf('script-8', 'customer:1#2')
    await scene.work()
    const job = await scene.add()
    await until('it was sent back', async () => (await scene.producer.getDelayedCount()) > 0)
    return {
      job,
      why: /waits for one of its 2 slots\. All are held, by script-7 .+, script-8 .+: the first ends within \d+ ms|\(active\) has been in progress/,
      line: /^(delayed: one of its 2 slots\. .*|active: nothing: .*)$/,
      inspect: /customer:1 has slots: 2 are held/,
      limits: /2 slots/,
    }
  },
  'a job: behind one that runs for longer than any did': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    const first = await scene.busy()
    const job = await scene.add()
    const key = `bull:${scene.queue}:${first}`
    const minuteAgo = systemClock.wallNow() - 60_000
    await openRedis(fixture.fleet.queue.url, fixture).hset(key, 'processedOn', minuteAgo)
    return { job, why: /has been in progress since/, line: RUNS_FIRST }
  },
  'a job: behind one that waits for its backoff': async (scene) => {
    await scene.wasQuick()
    const first = await scene.fail(await scene.work(), { attempts: 2, backoff: 600_000 })
    return {
      job: await scene.add(),
      why: new RegExp(
        `1 ahead of it\\. Job ${first} waits for its delay or backoff to end, at 20\\d`,
      ),
      line: /^delayed: its delay or backoff to end, at 20\d\d-\S+Z\nwaiting: its turn: 1 ahead of it$/,
      whyOfFirst: BACKS_OFF,
    }
  },
  'a job: waits for its own backoff, in line': async (scene) => {
    await scene.wasQuick()
    const job = await scene.fail(await scene.work(), { attempts: 2, backoff: 600_000 })
    return {
      job,
      why: BACKS_OFF,
      line: /^delayed: its delay or backoff to end, at 20\d\d-\S+Z$/,
    }
  },
  'a job: delayed, not in a line yet': async (scene) => {
    await scene.work()
    return {
      job: await scene.add(1, {}, { delay: 600_000 }),
      why: /\(delayed\) waits for its delay or backoff to end, at 20\d\d-\S+Z\.\n$/,
    }
  },
  'a job: runs': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    return {
      job: await scene.busy(),
      why: /\(active\) has been in progress since 20\d\d-\S+Z, and is first in line for `customer:1`, whose lease is held by /,
      line: /^active: nothing: it is being processed$/,
    }
  },
  'a job: completed': async (scene) => {
    await scene.work({ quick: true })
    const job = await scene.add()
    await until('it is done', async () => (await scene.producer.getCompletedCount()) === 1)
    return {
      job,
      why: /has completed\.\n$/,
      inspect: /customer:1 is free[^]*no jobs waiting/,
    }
  },
  'a job: failed, and its line goes on': async (scene) => {
    const job = await scene.fail(await scene.work())
    return {
      job,
      why: new RegExp(
        `has failed: card declined\\. To try it again: \`bullmq-redlock retry ${scene.queue} ${job}\`\\.\n$`,
      ),
      inspect: /no jobs waiting/,
    }
  },
  'a line: a failed job holds it': async (scene) => {
    await scene.wasQuick()
    const first = await scene.fail(await scene.work({ onFailure: 'block' }))
    return {
      job: await scene.add(),
      why: new RegExp(
        `1 ahead of it\\. Job ${first} waits for \`bullmq-redlock retry ${scene.queue} ${first}\`, ` +
          `or \`bullmq-redlock skip ${scene.queue} ${first}\`: it holds the line because it failed: card declined\\.(?!\\.)`,
      ),
      line: /^failed: `bullmq-redlock retry .+: card declined\nwaiting: its turn: 1 ahead of it$/,
      doctor: ['line-held'],
      doctorSays: new RegExp(`fix: \`bullmq-redlock retry ${scene.queue} ${first}\`, or \``),
    }
  },
  'a job: waits for its children': async (scene) => {
    await scene.work()
    return {
      job: await scene.flow(),
      why: /waits for its children to end\. One of them: `bullmq-redlock why q-\S+ \S+`\.\n$/,
      line: /^active: nothing/,
    }
  },
  'a job: added by a plain queue': async (scene) => {
    await scene.work({ concurrency: 1 })
    await scene.busy(2)
    const { id } = await scene.plain().add('post', { customer: 1 })
    const why = /waits for a free worker\. It has no place in a line: it was not added through/
    return { job: id ?? '', why }
  },
  'a job: added by a plain queue, and runs': async (scene) => {
    const plain = scene.plain()
    const { id } = await plain.add('post', { customer: 1 })
    await scene.work({ order: 'relaxed' })
    await until('it runs', async () => (await plain.getActiveCount()) === 1)
    return { job: id ?? '', why: /has been in progress since 20\d\d-\S+Z\. It has no/ }
  },
  "a job: another client has the lease, with order 'relaxed'": async (scene) => {
    await leaseOf('script-7', 'customer:1')
    const { id = '' } = await scene.plain().add('post', { customer: 1 })
    await scene.work({ order: 'relaxed' })
    const isBack = async (): Promise<boolean> => (await scene.plain().getDelayedCount()) === 1
    await until('it waits for longer', async () => {
      const tries = await scene.plain().getJobLogs(id)
      return tries.count > 3 && (await isBack())
    })
    const again = ', and is tried again at 20\\d\\d-\\S+Z\\.|has been in progress'
    return {
      job: id,
      why: new RegExp(`\\(delayed\\) waits for a lease${again}`),
      whyOfWorker: new RegExp(
        `\\(delayed\\) waits for the lease of script-7 \\S+ on \`customer:1\`${again}`,
      ),
      inspect: /customer:1 is held by script-7/,
    }
  },
  "a job: its processor delays it, with order 'relaxed'": async (scene) => {
    const { id = '' } = await scene.plain().add('post', { customer: 6 })
    await scene.work({ order: 'relaxed' })
    await until('it is delayed', async () => (await scene.plain().getDelayedCount()) === 1)
    return {
      job: id,
      why: /\(delayed\) waits for its delay or backoff to end, at 20\d\d-\S+Z\.\n$/,
    }
  },
  'a job: does not exist': async (scene) => {
    await scene.work()
    await scene.busy(2)
    return { job: 'nobody', why: /no job nobody in queue `q-\S+`: it was/, whyCode: 1 }
  },
  'a line: paused': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    await scene.producer.pauseResource('customer:1', { by: 'ann', reason: 'migration' })
    return {
      job: await scene.add(),
      why: new RegExp(
        `waits for its resource to be resumed by \`bullmq-redlock resume ${scene.queue} customer:1\`: ` +
          'ann paused it at \\S+ \\(migration\\)\\.',
      ),
      line: /^waiting: its resource to be resumed by `bullmq.+`: ann .+ \(migration\)$/,
      limits: /customer:1 +paused \(by ann at \S+: migration\)/,
    }
  },
  'a job of two resources: one was resumed, and others are ahead of it at the other': async (
    scene,
  ) => {
    await scene.wasQuick()
    await scene.work()
    const first = await scene.busy(2)
    await scene.producer.pauseResource('customer:1', { until: systemClock.wallNow() + 600_000 })
    const job = await scene.add(1, { also: [2] })
    await scene.producer.resumeResource('customer:1')
    return {
      job,
      why: new RegExp(
        `in line for \`customer:2\`.* 1 ahead of it\\. Job ${first} has been in progress`,
      ),
      estimate: true,
      line: /^delayed: its turn: 1 ahead of it, in line for `customer:2`$/,
    }
  },
  'a line: paused for a time': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    await scene.producer.pauseResource('customer:1', { until: systemClock.wallNow() + 600_000 })
    return {
      job: await scene.add(),
      why: /waits for its resource to be resumed by `bullmq-redlock resume .+`, or for 20\d\d-\S+Z: /,
      estimate: true,
      line: /^delayed: its resource to be resumed by .+, or for 20\d\d-\S+Z: /,
      limits: /paused until 20\d\d-/,
    }
  },
  'a line: told to slow down': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    const first = await scene.add(5)
    await until('it sleeps', async () => {
      return (await scene.producer.getLimits('customer:5')).asleepUntil !== undefined
    })
    return {
      job: first,
      why: /the rest of its resource to end, at 20\d\d-\S+Z, or by `bullmq-redlock resume q-\S+ customer:5`: a job/,
      estimate: true,
      limits: /customer:5 +asleep until 20\d\d-/,
    }
  },
  'a line: its rate is used up': async (scene) => {
    await scene.wasQuick()
    await scene.work({ quick: true })
    await scene.producer.setRate('customer:1', { limit: 1, perMs: 600_000 })
    await scene.add()
    const job = await scene.add()
    await until('one is done', async () => (await scene.producer.getCompletedCount()) === 4)
    await leaseOf('script-7', 'customer:1')
    return {
      job,
      why: /waits for the rate limit of its resource, until 20\d\d-\S+Z\./,
      line: /^delayed: the rate limit of its resource, until 20\d\d-\S+Z$/,
      limits: /1 start in 600000 ms, burst 1/,
    }
  },
  'a line: another client has the lease': async (scene) => {
    await scene.wasQuick()
    await leaseOf('script-7', 'customer:1')
    await scene.work()
    return {
      job: await scene.add(),
      // A worker tries to get the lease for a moment, before it parks the job.
      why: /the lease of script-7 .*for another \d+ ms|lease is held by script-7/,
      inspect: /customer:1 is held by script-7 .*for another/,
      line: /^(delayed: the lease of script-7 .*another \d+ ms if it is not extended|active: nothing: .*)$/,
    }
  },
  'a line: a lease that never ends': async (scene) => {
    await leaseOf('script-7', 'customer:1')
    await scene.add()
    const job = await scene.add()
    const key = `${fixture.namespace}:lease:customer:1`
    for (const url of fixture.fleet.urls) await openRedis(url, fixture).persist(key)
    return {
      job,
      why: /the lease of script-7 .*, which never ends: `bullmq-redlock release --yes customer:1`\. No/,
      line: /^waiting: the lease of script-7 .* customer:1`\nwaiting: its turn: 1 ahead of it$/,
      inspect: /customer:1 is held by script-7 .*without expiry/,
      doctor: ['no-expiry', 'no-expiry', 'no-expiry', 'queue-stands'],
      doctorSays: /bullmq-redlock release --yes \S+/,
    }
  },
  'a queue: no worker': async (scene) => {
    await scene.wasQuick()
    await scene.add()
    return {
      job: await scene.add(),
      why: /No worker of queue `\S+` is connected\. To go on: start one\./,
      line: /^waiting: a free worker\. No worker .+ To go on: start one\nwaiting: its turn: 1 ahead of it$/,
      doctor: ['queue-stands'],
      doctorSays:
        /2 jobs wait, and job \d+ has waited for .*: No worker of queue `\S+` is connected\.\n +fix: start one/,
    }
  },
  'a queue: paused': async (scene) => {
    await scene.wasQuick()
    await scene.work()
    await scene.producer.pause()
    return {
      job: await scene.add(),
      why: /a free worker\. Queue `\S+` is paused\. To go on: call `queue\.resume\(\)`\.\n$/,
      line: /^waiting: a free worker\. Queue `\S+` is paused\. To go on: call `queue\.resume\(\)`$/,
      doctor: ['queue-stands'],
      doctorSays: /fix: call `queue\.resume\(\)`/,
    }
  },
  'a queue: its global concurrency is used up': async (scene) => {
    await scene.producer.setGlobalConcurrency(1)
    await scene.work({ concurrency: 2 })
    await scene.busy(2)
    return {
      job: await scene.add(),
      why: /waits for the global concurrency of its queue: 1 may run\.\n$/,
      line: /^waiting: the global concurrency of its queue: 1 may run$/,
    }
  },
  'a queue: its global rate limit is used up': async (scene) => {
    await scene.wasQuick()
    await scene.producer.setGlobalRateLimit(1, 600_000)
    await scene.producer.rateLimit(600_000)
    await scene.work()
    return {
      job: await scene.add(),
      why: /the global rate limit of its queue, which counts anew in \d{6} ms\./,
      estimate: true,
      line: /^waiting: the global rate limit of its queue, which counts anew in \d{6} ms$/,
    }
  },
  'a queue: told to slow down': async (scene) => {
    await scene.wasQuick()
    await scene.producer.rateLimit(600_000)
    await scene.work({ limiter: { max: 100, duration: 1_000 } })
    return {
      job: await scene.add(),
      why: /a free worker, or for the `limiter` of its workers, which counts anew in \d{6} ms\./,
      estimate: true,
      line: /^waiting: a free worker, or for the `limiter` of its workers, which counts anew in \d{6} ms$/,
    }
  },
  'a queue: the limiter of its workers is used up': async (scene) => {
    await scene.work({ quick: true, limiter: { max: 1, duration: 600_000 } })
    await scene.add(2)
    const isDone = async (): Promise<boolean> => (await scene.producer.getCompletedCount()) === 1
    await until('it has run', isDone)
    return {
      job: await scene.add(),
      why: /waits for a free worker, or for the `limiter` of its workers, which counts anew in \d{6} ms\.\n$/,
      line: /^waiting: a free worker, or for the `limiter` of its workers, which counts anew in \d{6} ms$/,
    }
  },
  'a queue: a job waits for two minutes': async (scene) => {
    await scene.work({ concurrency: 1 })
    await scene.busy(2)
    const job = await scene.add(1, {}, { timestamp: systemClock.wallNow() - 120_000 })
    return {
      job,
      why: /waits for a free worker/,
      line: /^waiting: a free worker$/,
      doctor: ['long-wait'],
      doctorCode: 0,
      doctorSays: new RegExp(`1 job waits, and job ${job} has waited for 2 min\n +fix: see why: `),
    }
  },
  'a queue: its workers and producers have other settings': async (scene) => {
    const worker = await scene.work({ order: 'relaxed' })
    await worker.waitUntilReady()
    await scene.producer.getLimits('customer:1')
    return {
      job: await scene.add(),
      why: /waits for a free worker|has been in progress/,
      line: /^(waiting: a free worker|active: nothing.*)$/,
      doctor: ['settings-differ'],
      doctorSays: /`order` is relaxed in a LockedWorker and strict in a LockedQueue/,
    }
  },
  'a worker: paused': async (scene) => {
    await scene.wasQuick()
    const worker = await scene.work({ concurrency: 1 })
    await scene.busy(2)
    await worker.pause(true)
    return {
      job: await scene.add(),
      why: /waits for a free worker/,
      line: /^waiting: a free worker$/,
      notReady: /"state":"paused"/,
    }
  },
  'a worker: does not run yet': async (scene) => {
    await scene.work({ autorun: false })
    const job = await scene.add()
    const line = /^waiting: a free worker$/
    return { job, why: /a free worker/, line, notReady: /"state":"starting"/ }
  },
  'a fleet: new, and no worker has used it': async (scene) => ({
    job: await scene.add(),
    why: /waits for a quorum of the lock masters: 0 of 3 masters vote[^]*start a worker/,
    whyCode: 0,
    inspect: /No lease is granted: 0 of 3 masters vote/,
    line: /^waiting: a quorum of the lock masters: 0 of 3 masters vote/,
    doctor: ['no-quorum', 'not-enrolled', 'not-enrolled', 'not-enrolled', 'queue-stands'],
    doctorSays:
      /fix: do what is said of each master here[^]*fix: start a worker: it votes \d+ ms later/,
    doctorCode: 3,
  }),
  'a fleet: masters wait after a start': async (scene) => {
    const { fleet, namespace } = fixture
    const redlock = new Redlock({ masters: fleet.urls, namespace, logger: silentLogger })
    fixture.defer(() => redlock.close())
    await redlock.ready()
    await scene.work({ redlock })
    return {
      job: await scene.add(),
      why: /0 of 3 masters vote and 2 are needed\. .* grants nothing for at most another \S+ s.*the time counts only while one is connected/,
      inspect: /No lease is granted: 0 of 3 masters vote/,
      line: /^(delayed: a quorum of the lock masters: 0 of 3 .*run `bullmq-redlock bootstrap`|active: .*)$/,
      doctor: ['no-quorum', 'quarantined', 'quarantined', 'quarantined'],
      whyOfWorker:
        /0 of 3 masters vote and 2 are needed\. .* grants nothing for another .*run `bullmq-redlock bootstrap`/,
      notReady: /0 of 3 masters vote and 2 are needed\. .* grants nothing for at most another/,
      doctorSays: /fix: keep a worker running: the time counts only while one is connected/,
      doctorCode: 3,
    }
  },
}

it.each(Object.keys(STATES))('%s', async (name) => {
  const queueRedis = openRedis(fixture.fleet.queue.url, fixture)
  await queueRedis.config('SET', 'appendonly', 'yes')
  fixture.defer(() => queueRedis.flushall()) // Each state has a queue's Redis of its own.
  const scene = new Scene()
  const { env } = fixture
  const ask = async (...args: readonly string[]): Promise<{ text: Said; json: Said }> => {
    const both = async (): Promise<{ text: Said; json: Said }> => ({
      text: await cli(args, { env }),
      json: await cli([...args, '--json'], { env }),
    })
    let said = await both()
    // On a busy machine a master may be slow in one of two looks.
    for (let n = 0; n < 5 && said.json.code !== said.text.code; n++) said = await both()
    expect(said.json.code).toBe(said.text.code)
    expect(said.text.out).not.toMatch(/\b1 (masters|jobs|leases|lines|slots|starts|workers)\b/)
    return said
  }
  if (!name.startsWith('a fleet')) await fixture.redlock(LONG)
  const answers = await STATES[name]?.(scene)
  if (answers === undefined) throw new Error('no such state')
  const { doctor = [] } = answers
  const { base } = await serve(fixture, { timeoutMs: 2_000 })
  // Commands on the page name what is not the default; here the environment does.
  const get = async (path: string): Promise<Response> => {
    const answer = await fetch(base + path)
    const text = await answer.text()
    return new Response(text.replaceAll(` --namespace ${fixture.namespace}`, ''), answer)
  }
  if (answers.job !== undefined && answers.why !== undefined) {
    const { text, json } = await ask('why', scene.queue, answers.job)
    expect(text.out).toMatch(answers.why)
    expect(text.code).toBe(answers.whyCode ?? 0)
    const { why, state, position } = json.json<JobExplanation>()
    expect(`${why}\n`).toMatch(answers.why)
    const hasEstimate = answers.estimate === true
    expect([text.out.includes('should start'), position?.estimate !== undefined]).toEqual([
      hasEstimate,
      hasEstimate,
    ])
    // Its state and its line are looked at one after the other.
    await vi.waitFor(async () => {
      const page = await get(`/job?queue=${scene.queue}&id=${answers.job}`)
      expect(page.ok).toBe((answers.whyCode ?? 0) === 0)
      const told = page.ok ? ((await page.json()) as JobDetail) : { why: await page.text(), state }
      expect(`${told.why}\n`).toMatch(answers.why ?? /never/)
      expect(told.why.includes('should start')).toBe(hasEstimate)
      const [, inText = state] = /^Job \S+ \(([\w-]+)\)/.exec(told.why) ?? []
      expect(inText).toBe(told.state)
    }, WAIT)
  }
  const { text: shown, json: inspected } = await ask('inspect', 'customer:1')
  expect(shown.out).toMatch(answers.inspect ?? /customer:1 is/)
  expect(shown.code).toBe(0)
  const resource = (await (await get('/resource?name=customer:1')).json()) as ResourcePage
  const looks = await Promise.all([...scene.workers.keys()].map((one) => one.inspect('customer:1')))
  for (const { line } of [inspected.json<ResourcePage>(), resource, ...looks]) {
    const rows = (line as readonly LineEntry[]).map((row) => `${row.state}: ${row.waitsFor}`)
    expect(rows.join('\n')).toMatch(answers.line ?? /^$/)
  }
  const waits = JSON.stringify(resource.line).match(/"state":"(waiting|delayed)"/) !== null
  const ofFirst = waits ? (answers.whyOfFirst ?? answers.why ?? /never/) : /^undefined\n$/
  expect(`${resource.why}\n`).toMatch(ofFirst)
  const { text, json } = await ask('doctor')
  const toSee = ({ findings }: Pick<Diagnosis, 'findings'>): Diagnosis['findings'] =>
    findings.filter(({ severity, code, where }) => {
      const isTold = severity !== 'note' || code === 'long-wait'
      return isTold && where !== 'this machine' && code !== 'slow'
    })
  const codes = toSee(json.json()).map(({ code }) => code)
  expect(codes.sort()).toEqual([...doctor].sort())
  if (answers.doctorSays !== undefined) expect(text.out).toMatch(answers.doctorSays)
  const firstRow = toSee(((await (await get('/state')).json()) as DashboardState).fleet)
  expect(new Set(firstRow.map(({ code }) => code))).toEqual(new Set(doctor))
  const row = firstRow.map(({ fact, fix }) => `${fact}\n fix: ${fix}`).join('\n')
  if (answers.doctorSays !== undefined) expect(row).toMatch(answers.doctorSays)
  if (answers.doctorCode !== undefined || doctor.length > 0) {
    expect(text.code).toBe(answers.doctorCode ?? 1)
  }
  const limits = await ask('limits', scene.queue)
  expect(limits.text.out).toMatch(answers.limits ?? /no resource is paused or limited/)
  await expectOwnAnswers(scene, answers, json.json<Diagnosis>())
})

it('of a job behind one that asks for the lease of another client, why names that client', async () => {
  const scene = new Scene()
  await leaseOf('script-7', 'customer:1')
  const worker = await scene.work()
  const first = await scene.add()
  const behind = await scene.add()
  const seen = new Set<string>()
  await until('it has asked and waits', async () => {
    const [, told = ''] = (await worker.why(behind)).split(`Job ${first} `)
    seen.add(told.replaceAll(/\d{2,}\S*|\(.*\)/g, 'n'))
    return seen.size > 1
  })
  for (const told of seen) expect(told).toMatch(/lease of script-7|held by script-7|^$/)
})

it('without a quorum a worker says so of a job that is due, and shows the line', async () => {
  const scene = new Scene()
  const redlock = await fixture.redlock({ ...LONG, masterTimeoutMs: 300 })
  const worker = await scene.work({ quick: true, redlock })
  await worker.waitUntilReady()
  const [one, two] = fixture.fleet.masters
  fixture.defer(async () => {
    await Promise.all([one?.thaw(), two?.thaw()])
  })
  await Promise.all([one?.freeze(), two?.freeze()])
  const first = await scene.add()
  expect(await worker.why(first)).toMatch(
    /quorum of the lock masters: .*2 of 3|No lease is granted/,
  )
  const due = await scene.add(3, {}, { delay: 1 })
  await until('its worker waits', () => worker.isPaused())
  expect(await worker.why(due)).toMatch(/waits for a quorum of the lock masters: .* It was due at /)
  const { lease, line } = await worker.inspect('customer:1')
  expect(lease?.unknown).toContain('Fewer than 2 of 3')
  expect(line).toMatchObject([{ jobId: first }])
})

/** What the processes say of themselves agrees with what an operator sees from outside. */
async function expectOwnAnswers(
  { producer, workers }: Scene,
  { job, why, whyOfWorker = why, estimate = false, notReady }: Answers,
  { voting, quorum }: Diagnosis,
): Promise<void> {
  const place = job === undefined ? undefined : await producer.position(job)
  expect(place?.estimate !== undefined).toBe(estimate)
  const probe = new FleetProbe({
    ...{ masters: fixture.fleet.urls, namespace: fixture.namespace, timeoutMs: 2_000 },
  })
  for (const [worker, redlock] of workers) {
    if (job !== undefined && whyOfWorker !== undefined) {
      expect(`${await worker.why(job)}\n`).toMatch(whyOfWorker)
    }
    await until('it holds a lease for each job that runs', async () => {
      return redlock.status().leases === (await producer.getActiveCount())
    })
    const { masters, quorum: needed } = redlock.status()
    expect([masters.filter(({ state }) => state === 'voting').length, needed]).toEqual([
      voting,
      quorum,
    ])
    for (const { state, reason } of masters) {
      expect(reason === undefined).toBe(state === 'voting')
    }
    const pages = healthPages({
      ...{ workers: [worker], signal: new AbortController().signal },
      votes: async () => voteCount(await fleetView(probe).diagnose()),
      asksQueue: () => producer.getActiveCount(),
    })
    expect((await pages.get('/healthz')?.())?.status).toBe(200)
    const { status, body } = (await pages.get('/readyz')?.()) ?? {}
    expect(status).toBe(notReady === undefined ? 200 : 503)
    expect(JSON.parse(String(body))).toMatchObject({
      status: notReady === undefined ? 'ready' : 'not ready',
      masters: { voting, quorum },
    })
    if (notReady !== undefined) expect(String(body)).toMatch(notReady)
  }
  probe.close()
}
