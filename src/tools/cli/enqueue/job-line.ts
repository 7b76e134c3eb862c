/** One line of input as a job, or what is wrong with it. Pure. */
import { createHash } from 'node:crypto'
import type { JobsOptions } from 'bullmq'
import type { Line } from './ndjson-lines.ts'
import { messageOf } from '../../../message-of.ts'

export interface JobLineOptions {
  readonly jobName: string
  /** Tells two imports of the same lines apart. */
  readonly runId: string
  readonly attempts: number
  /** How long the queue remembers that a line was added, also when its job is gone. */
  readonly rememberMs: number
  /** A field of the line that names the job; default: line number and content do. */
  readonly idField: string | undefined
  readonly resourceField: string | undefined
  readonly resourcePrefix: string
}

export type JobData = Readonly<Record<string, unknown>>

export interface NewJob {
  readonly name: string
  readonly data: JobData
  readonly opts: JobsOptions & { readonly jobId: string }
}

export type ReadLine =
  | { readonly kind: 'job'; readonly job: NewJob }
  | { readonly kind: 'bad'; readonly problem: string }
  | { readonly kind: 'empty' }

const MAX_ID_LENGTH = 200
const MAX_RESOURCE_LENGTH = 512
/** JSON.stringify of a deeper value may exceed the stack, wherever it is called. */
const MAX_DEPTH = 500

export function readLine({ number, text: given }: Line, options: JobLineOptions): ReadLine {
  const bad = (problem: string): ReadLine => ({ kind: 'bad', problem })
  if (given === undefined) return bad('is longer than --max-line-bytes')
  // Editors of Windows put a byte order mark before the first line.
  const text = number === 1 ? given.replace(/^\uFEFF/, '') : given
  if (text.trim() === '') return { kind: 'empty' }
  if (isTooDeep(text)) return bad(`has more than ${MAX_DEPTH} levels of brackets`)
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch (error) {
    return bad(`is not JSON: ${messageOf(error)}`)
  }
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    return bad('is not a JSON object')
  }
  const fields = data as JobData
  if (options.resourceField !== undefined) {
    const resource = resourceOf(fields, options.resourceField, options.resourcePrefix)
    if (resource === undefined)
      return bad(`has no usable \`${options.resourceField}\` for its resource`)
  }
  const jobId = idOf(number, text, fields, options)
  if (jobId === undefined) return bad(`has no usable \`${options.idField ?? ''}\` for its job id`)
  const { jobName: name, attempts, rememberMs } = options
  // The job's id alone would let it be added again as soon as it has finished and been removed.
  const deduplication = { id: jobId, ttl: rememberMs }
  return { kind: 'job', job: { name, data: fields, opts: { jobId, attempts, deduplication } } }
}

/** Undefined when the field is no text or number, or is too long. */
export function resourceOf(data: JobData, field: string, prefix: string): string | undefined {
  const name = nameIn(data, field)
  if (name === undefined) return undefined
  const resource = prefix + name
  return resource.length <= MAX_RESOURCE_LENGTH ? resource : undefined
}

function nameIn(data: JobData, field: string): string | undefined {
  const value = Object.hasOwn(data, field) ? data[field] : undefined
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/**
 * Always the same for the same line of the same run. BullMQ allows no colon in it and no number
 * alone, and an id such as `wait` would name a key of the queue itself: so each has a prefix, which
 * also keeps `5` and `id-5` apart.
 */
function idOf(
  number: number,
  text: string,
  data: JobData,
  { runId, idField }: JobLineOptions,
): string | undefined {
  if (idField === undefined) {
    const hash = createHash('sha256')
      .update(JSON.stringify([runId, number, text]))
      .digest('hex')
    return `line-${number}-${hash.slice(0, 24)}`
  }
  const name = nameIn(data, idField)
  if (name === undefined || name.length > MAX_ID_LENGTH || name.includes(':')) return undefined
  return `id-${name}`
}

/** Counts brackets outside of texts: a parser would need the stack that this protects. */
function isTooDeep(text: string): boolean {
  let depth = 0
  for (let at = 0, quoted = false; at < text.length; at++) {
    const character = text[at]
    if (quoted) {
      if (character === '\\') at++
      else if (character === '"') quoted = false
    } else if (character === '"') quoted = true
    else if (character === '{' || character === '[') {
      if (++depth > MAX_DEPTH) return true
    } else if (character === '}' || character === ']') depth--
  }
  return false
}
