/**
 * What outlives a worker, in the queue's Redis: results that jobs share, and results of steps.
 * Writes are fenced: a store remembers the largest fencing token it has seen and refuses a holder
 * with a smaller one.
 */
import type { Job } from 'bullmq'
import { LeaseLostError, ValueTooLargeError } from '../../errors.ts'
import { ownScript } from '../../line/bullmq/composed-script.ts'
import type { LineBackend } from '../../line/line-backend.ts'

const claimScript = ownScript('worker/lua/claim-result')
const writeScript = ownScript('worker/lua/write-result')
const peekScript = ownScript('worker/lua/peek-result')
const dropScript = ownScript('worker/lua/drop-result')

/** The place of a job that takes no result of a computation that began before it was added. */
export interface PlaceInLine {
  readonly line: string
  readonly id: string
  readonly timestamp: string
}

/** A result that is kept. */
export interface StoredResult {
  readonly value: unknown
}

/** The holder that writes: the lease's resource and fencing token. */
interface Writer {
  readonly resource: string
  readonly fencingToken: number
}

const FIELD_PREFIX = 'value:'

export class ResultStore {
  readonly #backend: LineBackend
  readonly #maxBytes: number

  constructor(backend: LineBackend, maxBytes: number) {
    this.#backend = backend
    this.#maxBytes = maxBytes
  }

  /** Without a lease: the result that a holder has stored, if this job may take it. */
  async peek(store: string, asker?: PlaceInLine): Promise<StoredResult | undefined> {
    const text = await this.#backend.run(peekScript, { store: this.#keyOf(store), ...asker })
    return typeof text === 'string' ? { value: this.#parse(store, text) } : undefined
  }

  /**
   * Everything that is stored; from now on no older holder writes.
   * @throws LeaseLostError when a later holder has been here.
   */
  async claimAll(
    store: string,
    writer: Writer,
    ttlMs: number,
    asker?: PlaceInLine,
  ): Promise<ReadonlyMap<string, unknown>> {
    const own = { fencingToken: String(writer.fencingToken), ttlMs: Math.ceil(ttlMs) }
    const args = { store: this.#keyOf(store), ...own, ...asker }
    const fields = fieldsOf(await this.#backend.run(claimScript, args), writer)
    const values = new Map<string, unknown>()
    for (let index = 0; index + 1 < fields.length; index += 2) {
      const field = fields[index] ?? ''
      if (!field.startsWith(FIELD_PREFIX)) continue
      values.set(field.slice(FIELD_PREFIX.length), this.#parse(store, fields[index + 1]))
    }
    return values
  }

  /** @throws LeaseLostError when a later holder has been here; ValueTooLargeError. */
  async keep(
    store: string,
    writer: Writer,
    ttlMs: number,
    value: unknown,
    name: string = 'result',
  ): Promise<void> {
    // JSON has no undefined: a step that returns nothing comes back with null.
    const text = JSON.stringify(value ?? null)
    const bytes = Buffer.byteLength(text)
    if (bytes > this.#maxBytes) throw new ValueTooLargeError(name, bytes, this.#maxBytes)
    const own = { fencingToken: String(writer.fencingToken), ttlMs: Math.ceil(ttlMs) }
    const args = { store: this.#keyOf(store), ...own, field: FIELD_PREFIX + name, value: text }
    fieldsOf(await this.#backend.run(writeScript, args), writer)
  }

  async drop(store: string): Promise<void> {
    await this.#backend.run(dropScript, { store: this.#keyOf(store) })
  }

  #keyOf(store: string): string {
    return this.#backend.keyOf(store)
  }

  /** @throws TypeError, which fails the job. Another try would read the same. */
  #parse(store: string, text = 'null'): unknown {
    try {
      return JSON.parse(text)
    } catch (cause) {
      const key = this.#keyOf(store)
      throw new TypeError(`The stored result in \`${key}\` is not JSON: delete this key`, { cause })
    }
  }
}

function fieldsOf(reply: unknown, { resource, fencingToken }: Writer): readonly string[] {
  const [word, rest] = reply as [string, (string | string[])?]
  if (word === 'kept') return Array.isArray(rest) ? rest : []
  const reason = `a later holder (fencing token ${String(rest)}) has written since`
  throw new LeaseLostError(resource, fencingToken, reason)
}

/** Where the results of a job's steps are. */
export function stepsKey({ id = '' }: Pick<Job, 'id'>): string {
  return `steps:${id}`
}
