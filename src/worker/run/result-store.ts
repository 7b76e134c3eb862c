/**
 * What outlives a worker, in the queue's Redis: results that jobs share, and results of steps.
 * Writes are fenced: a store remembers the largest fencing token it has seen and refuses a holder
 * with a smaller one.
 */
import type { Job } from 'bullmq'
import { LeaseLostError, ValueTooLargeError } from '../../errors.ts'
import { keyScript } from '../../line/bullmq/composed-script.ts'
import type { LineBackend } from '../../line/line-backend.ts'

/** One computation for all jobs of a queue with the same name and resource, within a time. */
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

/** Whether the result in a store may be taken by the job of a place: see {@link Dedupe.fresh}. */
const MAY_TAKE = `
local function mayTake(line, place, began)
  if line == '' then return true end
  local score = redis.call('ZSCORE', ARGV[1] .. 'line:' .. line, place)
  local added = math.abs(tonumber(score or 0)) % 0x100000000
  return added <= tonumber(began or 0) % 0x100000000
end
`

/**
 * KEYS  1 store
 * ARGV  1 space · 2 slots · 3 fencing token · 4 ttlMs · 5 line, or '' · 6 place of the job in it
 * Returns  kept, all fields and values | stale, the token that was seen
 * Keeps: who reads claims with its token first, so an older holder cannot write behind its back.
 */
const claimScript = keyScript(
  'results:claim',
  `${MAY_TAKE}
local seen = redis.call('HMGET', KEYS[1], 'fencingToken', 'resultBegan')
if seen[1] and tonumber(seen[1]) > tonumber(ARGV[3]) then return {'stale', seen[1]} end
if not mayTake(ARGV[5], ARGV[6], seen[2]) then redis.call('HDEL', KEYS[1], 'value:result') end
local fields = redis.call('HGETALL', KEYS[1])
local began = redis.call('GET', ARGV[1] .. 'line-seq') or 0
redis.call('HSET', KEYS[1], 'fencingToken', ARGV[3], 'began', began)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'kept', fields}
`,
)

/**
 * KEYS  1 store
 * ARGV  1 space · 2 slots · 3 fencing token · 4 ttlMs · 5 field · 6 value
 * Returns  kept | stale, the token that was seen
 */
const writeScript = keyScript(
  'results:write',
  `
local seen = redis.call('HMGET', KEYS[1], 'fencingToken', 'began')
if seen[1] and tonumber(seen[1]) > tonumber(ARGV[3]) then return {'stale', seen[1]} end
redis.call('HSET', KEYS[1], 'fencingToken', ARGV[3], ARGV[5], ARGV[6], 'resultBegan', seen[2] or 0)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'kept'}
`,
)

/**
 * KEYS  1 store
 * ARGV  1 space · 2 slots · 3 line, or '' · 4 place of the job in it
 * Returns  the result | false
 */
const peekScript = keyScript(
  'results:peek',
  `${MAY_TAKE}
local found = redis.call('HMGET', KEYS[1], 'value:result', 'resultBegan')
return found[1] and mayTake(ARGV[3], ARGV[4], found[2]) and found[1]
`,
)

/** KEYS  1 store */
const dropScript = keyScript('results:drop', `return redis.call('DEL', KEYS[1])`)

/** The place of a job that takes no result of a computation that began before it was added. */
type PlaceInLine = readonly [line: string, place: string]
/** A job that takes any result. */
const ANY: PlaceInLine = ['', '']

/** The holder that writes: the lease's resource and fencing token. */
export interface Writer {
  readonly resource: string
  readonly fencingToken: number
}

const FIELD_PREFIX = 'value:'
const RESULT = 'result'

export class ResultStore {
  readonly #backend: LineBackend
  readonly #maxBytes: number

  constructor(backend: LineBackend, maxBytes: number) {
    this.#backend = backend
    this.#maxBytes = maxBytes
  }

  /** Without a lease: the result that a holder has stored, if this job may take it. */
  async peek(
    store: string,
    asker: PlaceInLine = ANY,
  ): Promise<{ readonly value: unknown } | undefined> {
    const text = await this.#backend.run(peekScript, store, asker)
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
    asker: PlaceInLine = ANY,
  ): Promise<ReadonlyMap<string, unknown>> {
    const args = [writer.fencingToken, Math.ceil(ttlMs), ...asker]
    const fields = fieldsOf(await this.#backend.run(claimScript, store, args), writer)
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
    name: string = RESULT,
  ): Promise<void> {
    // JSON has no undefined: a step that returns nothing comes back with null.
    const text = JSON.stringify(value ?? null)
    const bytes = Buffer.byteLength(text)
    if (bytes > this.#maxBytes) throw new ValueTooLargeError(name, bytes, this.#maxBytes)
    const args = [writer.fencingToken, Math.ceil(ttlMs), FIELD_PREFIX + name, text]
    fieldsOf(await this.#backend.run(writeScript, store, args), writer)
  }

  async drop(store: string): Promise<void> {
    await this.#backend.run(dropScript, store, [])
  }

  /** @throws TypeError, which fails the job. Another try would read the same. */
  #parse(store: string, text = 'null'): unknown {
    try {
      return JSON.parse(text)
    } catch (cause) {
      const key = this.#backend.keyOf(store)
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

/** The result that jobs share, for one of them. */
export interface SharedResult {
  /** Without a lease: what a holder has stored, if this job may take it. */
  peek(): Promise<{ readonly value: unknown } | undefined>
  /** As `peek`; from now on no older holder writes. @throws LeaseLostError */
  claim(writer: Writer): Promise<{ readonly value: unknown } | undefined>
  /** @throws LeaseLostError when a later holder has been here; ValueTooLargeError. */
  keep(writer: Writer, value: unknown): Promise<void>
}

export function sharedResultOf<Data>(
  results: ResultStore,
  dedupe: Dedupe<Data>,
  job: Job<Data>,
  resources: readonly string[],
): SharedResult {
  const { key, fresh = false, resultTtlMs } = dedupe
  const what = key === undefined ? resources : key(job)
  const store = `{result:${JSON.stringify([job.prefix, job.queueName, job.name, what])}}:values`
  const asker = fresh ? askerOf(job, resources) : ANY
  return {
    peek: () => results.peek(store, asker),
    async claim(writer) {
      const values = await results.claimAll(store, writer, resultTtlMs, asker)
      return values.has(RESULT) ? { value: values.get(RESULT) } : undefined
    },
    keep: (writer, value) => results.keep(store, writer, resultTtlMs, value),
  }
}

/** Where the results of a job's steps are. */
export function stepsKey(job: Pick<Job, 'id' | 'prefix' | 'queueName'>): string {
  return `{steps:${JSON.stringify([job.prefix, job.queueName, job.id ?? ''])}}:values`
}

/** For a job that takes only results of computations that began after it was added. */
function askerOf(
  job: Pick<Job, 'id' | 'prefix' | 'queueName' | 'timestamp'>,
  [line = '']: readonly string[],
): PlaceInLine {
  const base = `${job.prefix}:${job.queueName}:`
  return [line, `${base}${job.id ?? ''} ${Buffer.byteLength(base)} ${job.timestamp}`]
}
