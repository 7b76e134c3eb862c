/**
 * What outlives a worker, in the queue's Redis: results that jobs share, and results of steps.
 * Writes are fenced: a store of shared results remembers the largest fencing token that it has seen
 * of each lease, and steps are those of the run that has BullMQ's lock: see `lua/fence.lua`.
 */
import { UnrecoverableError } from 'bullmq'
import { JobLockLostError, ValueTooLargeError } from '../../errors.ts'
import { LeaseLostError } from '../../lock-errors.ts'
import { keyIn, type Arguments } from '../../line/line-runner.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import type { Lease } from '../../lock/lease.ts'
import { messageOf } from '../../message-of.ts'

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
