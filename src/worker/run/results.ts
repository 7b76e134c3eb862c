/**
 * What outlives a worker, in the queue's Redis: with `dedupe` results that jobs share, and with
 * `checkpoints` results of steps, which a later run of the job does not run again.
 * Writes are fenced: a store of shared results remembers the largest fencing token that it has seen
 * of each lease, and steps are those of the run that has BullMQ's lock: see `lua/fence.lua`.
 */
import { UnrecoverableError, type Job } from 'bullmq'
import { createHash } from 'node:crypto'
import { JobLockLostError, ValueTooLargeError } from '../../job-errors.ts'
import { LeaseLostError, ResourceTakenError } from '../../lock-errors.ts'
import { keyIn, type Arguments } from '../../line/line-runner.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import type { Lease } from '../../lock/lease.ts'
import { messageOf } from '../../message-of.ts'
import { refuse } from '../../options.ts'
import { insist, insistToStart } from './admission.ts'
import type { Process } from './job-runs.ts'
import type { Visit } from './visits.ts'

/** The place of a job that takes no result of a computation that began before it was added. */
export interface PlaceInLine {
  readonly line: string
  readonly id: string
  readonly timestamp: string
}

/** Who writes a result that jobs share: the holder of a lease. */
export type Holder = Pick<Lease, 'resource' | 'resources' | 'fencingToken'>

/** Who writes results of a job's steps: its run, which has BullMQ's lock on it. */
export interface Run {
  readonly jobId: string
  readonly lock: string
}

/** A result that is kept. */
export interface StoredResult {
  readonly value: unknown
}

const FIELD_PREFIX = 'value:'

export class ResultStore {
  readonly #lines: LineBackend
  readonly #maxBytes: number

  constructor(lines: LineBackend, maxBytes: number) {
    this.#lines = lines
    this.#maxBytes = maxBytes
  }

  /** Without a lease: the result that a holder has stored, if this job may take it. */
  async peek(store: string, asker?: PlaceInLine): Promise<StoredResult | undefined> {
    const text = await this.#lines.run('worker/lua/peek-result', {
      store: this.keyOf(store),
      ...asker,
    })
    return typeof text === 'string' ? { value: this.#parse(store, text) } : undefined
  }

  /**
   * Everything that is stored; from now on no older holder writes.
   * @throws LeaseLostError, or of steps JobLockLostError, when a later holder has been here.
   */
  async claimAll(
    store: string,
    writer: Holder | Run,
    ttlMs: number,
    asker?: PlaceInLine,
  ): Promise<ReadonlyMap<string, unknown>> {
    const fields = await this.#write('worker/lua/claim-result', store, writer, ttlMs, { ...asker })
    const values = new Map<string, unknown>()
    for (let index = 0; index + 1 < fields.length; index += 2) {
      const field = fields[index] ?? ''
      if (!field.startsWith(FIELD_PREFIX)) continue
      values.set(field.slice(FIELD_PREFIX.length), this.#parse(store, fields[index + 1]))
    }
    return values
  }

  /** @throws as `claimAll`, ValueTooLargeError, and UnrecoverableError for what is no JSON. */
  async keep(
    store: string,
    writer: Holder | Run,
    ttlMs: number,
    value: unknown,
    name: string = 'result',
  ): Promise<unknown> {
    const text = jsonOf(name, value)
    const bytes = Buffer.byteLength(text)
    if (bytes > this.#maxBytes) throw new ValueTooLargeError(name, bytes, this.#maxBytes)
    const field = FIELD_PREFIX + name
    await this.#write('worker/lua/write-result', store, writer, ttlMs, { field, value: text })
    return JSON.parse(text)
  }

  /** The whole name of a store. */
  keyOf(store: string): string {
    return keyIn(this.#lines.base, store)
  }

  /** As `lua/fence.lua` allows. @returns what is stored, if the script says that. */
  async #write(
    path: string,
    store: string,
    writer: Holder | Run,
    ttlMs: number,
    more: Arguments,
  ): Promise<readonly string[]> {
    const fence =
      'lock' in writer
        ? { job: writer.jobId, lock: writer.lock }
        : { lease: writer.resources.join(), fencingToken: String(writer.fencingToken) }
    const args = { store: this.keyOf(store), ...fence, ttlMs: Math.ceil(ttlMs), ...more }
    const reply = await this.#lines.run(path, args)
    const [word, rest = []] = reply as readonly [string, (string | string[])?]
    if (word === 'kept') return rest as readonly string[]
    if ('lock' in writer) throw new JobLockLostError(writer.jobId)
    const reason = `a later holder (fencing token ${String(rest)}) has written since`
    throw new LeaseLostError(writer.resource, writer.fencingToken, reason)
  }

  /** @throws TypeError, which fails the job. Another try would read the same. */
  #parse(store: string, text = 'null'): unknown {
    try {
      return JSON.parse(text)
    } catch (cause) {
      const key = this.keyOf(store)
      throw new TypeError(`The stored result in \`${key}\` is not JSON: delete this key`, { cause })
    }
  }
}

/** @throws UnrecoverableError: the work would be done again to the same end. */
function jsonOf(name: string, value: unknown): string {
  try {
    // In a list JSON has null for undefined: a step that returns nothing comes back with null.
    return JSON.stringify([value]).slice(1, -1)
  } catch (error) {
    throw new UnrecoverableError(
      `The result of \`${name}\` cannot be kept as JSON: ${messageOf(error)}`,
    )
  }
}

/** Where the results of a job's steps are. */
export function stepsKey(jobId: string): string {
  return `steps:${jobId}`
}

/** The results of one job's completed steps. */
export interface Checkpoints {
  /** The result of a step that an earlier run of this job completed. */
  completed(name: string): Promise<StoredResult | undefined>
  /** @returns what a later run would be given. */
  save(name: string, value: unknown): Promise<unknown>
}

/** Forgotten after this long without a step, if they did not end with the job. */
const CHECKPOINT_TTL_MS = 7 * 24 * 3_600_000

/** Keeps the results of a job's steps. */
export function checkpointing(process: Process, results: ResultStore): Process {
  return (visit, lease) => {
    const { id: jobId = '', token: lock = '' } = visit.job
    const [store, run] = [stepsKey(jobId), { jobId, lock }]
    const seen = new Set<string>()
    let earlier: Promise<ReadonlyMap<string, unknown>> | undefined
    lease.checkpoints = {
      async completed(name) {
        if (seen.has(name)) {
          throw new TypeError(
            `The step \`${name}\` runs twice in one job: with \`checkpoints\` give each step its own name`,
          )
        }
        seen.add(name)
        // Read once, and claimed: from now on an older run of this job cannot write.
        earlier ??= visit.awaits(
          insist(visit, () => results.claimAll(store, run, CHECKPOINT_TTL_MS)),
        )
        const values = await earlier
        return values.has(name) ? { value: values.get(name) } : undefined
      },
      save: (name, value) =>
        visit.awaits(insist(visit, () => results.keep(store, run, CHECKPOINT_TTL_MS, value, name))),
    }
    return process(visit, lease)
  }
}

/**
 * One computation for all jobs of a queue with the same name and resource, within a time. Jobs that
 * run at once, in slots or under one `key`, wait for the one of them that computes.
 */
export interface Dedupe<Data> {
  /** How long a result is kept, and given to jobs that ask for the same. */
  readonly resultTtlMs: number
  /** Names what is computed once. @defaultValue the job's resources */
  readonly key?: (job: Job<Data>) => string
  /**
   * A job that was added after the computation had begun does not take its result, and computes
   * itself: no change that came before a job is missed.
   * @defaultValue false
   */
  readonly fresh?: boolean
}

/** Where the result of a job is, that others share. */
export interface SharedResult {
  readonly store: string
  /** Of a job that takes only results of computations that began after it was added. */
  readonly asker: PlaceInLine | undefined
}

export class SharedResults {
  readonly #results: ResultStore
  readonly #dedupe: Dedupe<unknown>

  constructor(results: ResultStore, dedupe: Dedupe<unknown>) {
    this.#results = results
    this.#dedupe = dedupe
  }

  /** The stored result, if this job may take it: then it needs no lease, and runs nothing. */
  peek(visit: Visit): Promise<StoredResult | undefined> {
    const { job, resources } = visit
    const { key, fresh = false } = this.#dedupe
    const [line = ''] = resources
    const asker = { line, id: job.id ?? '', timestamp: String(job.timestamp) }
    const what = key === undefined ? resources : checkedKey(key(job))
    const store = `result:${JSON.stringify([job.name, what])}`
    visit.shared = { store, asker: fresh ? asker : undefined }
    return visit.awaits(insistToStart(visit, () => this.#results.peek(store, visit.shared?.asker)))
  }

  sharing(process: Process): Process {
    const results = this.#results
    const { resultTtlMs } = this.#dedupe
    return async (visit, lease) => {
      const { locks, leaseOptions } = visit.options
      const { leaseMs = locks.leaseMs } = leaseOptions
      const { store, asker } = visit.shared as SharedResult
      // Jobs of other slots, or of other resources with the same key, ask for it too.
      // rule: one-computes-a-result
      const name = createHash('sha256').update(results.keyOf(store)).digest('hex')
      const { signal } = visit.stop
      const options = { leaseMs, waitMs: leaseMs, autoExtend: true, signal }
      // Who has it computes the result. It is lost with the process, and guards no write.
      const takeTurn = (): Promise<Lease> =>
        locks.acquire(`result:${name}`, options).catch((error: unknown) => {
          if (error instanceof ResourceTakenError) return takeTurn()
          throw error
        })
      const turn = await insistToStart(visit, takeTurn)
      const pass = (): void => void turn.release()
      // A job that is given up may go on without end.
      // rule: given-up-job-keeps-no-result
      signal.addEventListener('abort', pass)
      try {
        // Another job may have stored a result since the first read.
        const claim = insistToStart(visit, () => results.claimAll(store, lease, resultTtlMs, asker))
        const stored = await visit.awaits(claim)
        if (stored.has('result')) return stored.get('result')
        const result = await process(visit, lease)
        const kept = insist(visit, () => results.keep(store, lease, resultTtlMs, result))
        await visit.awaits(kept).catch((error: unknown) => {
          // Its work is done, although the job is stopped: only the others do not get the result.
          // rule: result-that-is-not-stored-ends-its-job
          if (error !== signal.reason) throw error
        })
        return result
      } finally {
        signal.removeEventListener('abort', pass)
        await turn.release()
      }
    }
  }
}

/** @throws TypeError: all jobs whose keys are nothing would share one result. */
function checkedKey(key: unknown): string {
  if (typeof key === 'string' && key !== '') return key
  return refuse('dedupe.key', 'a function that returns a string, which is not empty', key)
}
