/**
 * A BullMQ `Queue` whose jobs take their places in the lines of their resources when they are added.
 * A job that is not first sleeps, so no worker starts it in vain; the job before it wakes it. A job
 * and its places are written by one script. The queue counts and lists a sleeping job as waiting.
 */
import { Queue, type Job, type JobsOptions, type QueueOptions } from 'bullmq'
import { sleep, systemClock } from '../clock.ts'
import { PlainWorkerError } from '../errors.ts'
import {
  choiceOption,
  integerOption,
  nameOption,
  objectOption,
  refuseMisspelled,
} from '../options.ts'
import { LineBackend } from './bullmq/line-backend.ts'
import { SettingsCheck } from './line/settings-check.ts'
import { resourceOption, resourcesOf } from './run/resource.ts'

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedQueueOptions<Data = any> extends QueueOptions {
  /** Names what a job touches from its data; must agree with the `resource` of the workers. */
  readonly resource: (data: Data) => string | readonly string[]
  /** The `namespace` of the workers' Redlock. @defaultValue 'redlock' */
  readonly namespace?: string
  /** The `slots` of the workers. @defaultValue 1 */
  readonly slots?: number
  /**
   * The order of the jobs of one resource. `added`: that of adding, whatever their priority.
   * `priority`: as BullMQ orders waiting jobs, by `priority` and `lifo`. A job that was started
   * keeps its place in either. @defaultValue 'added'
   */
  readonly within?: 'added' | 'priority'
  /**
   * The `maxWaitMs` of the workers: a job that waits behind others for this long is looked at, and
   * fails, then and not only when its turn comes. @defaultValue no limit
   */
  readonly maxWaitMs?: number
}

const KNOWN: Readonly<Record<keyof LockedQueueOptions | keyof QueueOptions, true>> = {
  ...{ resource: true, namespace: true, slots: true, within: true, maxWaitMs: true },
  ...{ connection: true, prefix: true, defaultJobOptions: true, streams: true, telemetry: true },
  ...{ blockingConnection: true, skipMetasUpdate: true, settings: true },
  ...{ skipVersionCheck: true, skipWaitingForReady: true },
}

/** A worker connects and says what it has in this time. */
const START_MS = 1_000

interface NewJob<Data, Name extends string> {
  name: Name
  data: Data
  opts?: JobsOptions
}

/** For `LockedWorker`s; its `error` event reports workers with other settings. */
export class LockedQueue<Data = any, Result = any, Name extends string = string> extends Queue<
  Data,
  Result,
  Name,
  Data,
  Result,
  Name
> {
  readonly #resource: (data: Data) => string | readonly string[]
  readonly #settings: SettingsCheck

  /** @throws TypeError for a bad option, and for a release of BullMQ that is not supported. */
  constructor(name: string, options: LockedQueueOptions<Data>) {
    objectOption(options, 'an object with `connection` and `resource`')
    refuseMisspelled(options, Object.keys(KNOWN))
    const { resource, namespace = 'redlock', slots = 1, within = 'added', ...rest } = options
    const { maxWaitMs, ...queueOptions } = rest
    nameOption('namespace', namespace)
    integerOption('slots', slots, 1, 1_000)
    choiceOption('within', within, ['added', 'priority'])
    if (maxWaitMs !== undefined) integerOption('maxWaitMs', maxWaitMs, 1, Number.MAX_SAFE_INTEGER)
    resourceOption(resource)
    const lines = { namespace, slots, within, maxWaitMs: maxWaitMs ?? Infinity }
    const resources = (data: unknown): readonly string[] =>
      resourcesOf(() => resource(data as Data), undefined)
    const factory = LineBackend.factory({ ...lines, onFailure: 'continue', resources })
    super(name, queueOptions, factory)
    this.#resource = resource
    const terms = { by: 'LockedQueue', namespace, order: 'strict', slots } as const
    const itself = { prefix: queueOptions.prefix ?? 'bull', queue: name }
    const backend = LineBackend.of(this)
    this.#settings = new SettingsCheck(backend, itself, terms, systemClock)
  }

  /** @throws ResourceError when `resource` names nothing for this data. */
  override async add(name: Name, data: Data, opts?: JobsOptions): Promise<Job<Data, Result, Name>> {
    this.#check(data, opts)
    return super.add(name, data, opts)
  }

  /** @throws ResourceError when `resource` names nothing for a job: then none is added. */
  override async addBulk(jobs: NewJob<Data, Name>[]): Promise<Job<Data, Result, Name>[]> {
    for (const { data, opts } of jobs) this.#check(data, opts)
    return super.addBulk(jobs)
  }

  /** A plain `Worker` would run the first job of each line and wake none behind it. */
  async #findPlainWorkers(): Promise<void> {
    if (await this.#settings.knowsWorker()) return
    if ((await this.getWorkersCount()) === 0) return
    await sleep(systemClock, START_MS) // A LockedWorker that starts says so in this time.
    if (this.closing || (await this.#settings.knowsWorker())) return
    this.emit('error', new PlainWorkerError(this.name))
  }

  #check(data: Data, opts: JobsOptions | undefined): void {
    resourcesOf(() => this.#resource(data), opts?.jobId)
    void this.#compareSettings()
  }

  async #compareSettings(): Promise<void> {
    try {
      const differences = await this.#settings.exchange()
      for (const difference of differences ?? []) this.emit('error', difference)
      if (differences !== undefined) await this.#findPlainWorkers()
    } catch {
      // The queue's Redis is away: the jobs' own commands say so.
    }
  }
}
