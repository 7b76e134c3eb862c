/**
 * Compiles ways to write a queue and a worker, once with BullMQ's classes and once with ours under
 * their names: what compiles with the one has to compile with the other.
 */
import { join } from 'node:path'
import ts from 'typescript'

/** `line` and `lock` are what is written in addition. */
const HEADERS = {
  bullmq: `
    import { Queue, Worker } from 'bullmq'
    declare const line: object
    declare const lock: object`,
  ours: `
    import { LockedQueue as Queue, LockedWorker as Worker, type Redlock } from '../../src/index.ts'
    declare const line: { readonly resource: (data: any) => string }
    declare const lock: { readonly redlock: Redlock; readonly resource: (job: any) => string }`,
}

const BOTH = `
    import * as bullmq from 'bullmq'
    declare const connection: { readonly host: string; readonly port: number }
    interface Data { readonly customer: string; readonly cents: number }
    export const queueOptions = { connection, ...line }
    export const workerOptions = { connection, ...lock }
    export { bullmq, connection, line, lock, Queue, Worker }
    export type { Data }`

/** Uses by their names. Each is a module with the names above. */
export const USES = {
  'any data': `
    const queue = new Queue('x', queueOptions)
    export const job = await queue.add('charge', { customer: 'a', more: [1] })
    export const customer: string = job.data.customer
    new Worker('x', async (job) => job.data.whatever.deep, workerOptions)`,
  'typed data': `
    const queue = new Queue<Data>('x', queueOptions)
    await queue.add('charge', { customer: 'a', cents: 1 })
    new Worker<Data>('x', async (job) => { job.data.cents.toFixed() }, workerOptions)`,
  'typed data, result and name': `
    const queue = new Queue<Data, number, 'charge' | 'refund'>('x', queueOptions)
    const job = await queue.add('refund', { customer: 'a', cents: 1 })
    export const result: number = job.returnvalue
    new Worker<Data, number, 'charge' | 'refund'>('x', async (job) => job.name.length, workerOptions)`,
  'addBulk and schedulers': `
    const queue = new Queue<Data>('x', queueOptions)
    const data: Data = { customer: 'a', cents: 1 }
    await queue.addBulk([{ name: 'a', data, opts: { attempts: 3 } }, { name: 'b', data }])
    await queue.upsertJobScheduler('s', { every: 1_000 }, { name: 'a', data })`,
  listeners: `
    const worker = new Worker<Data, number>('x', async () => 1, workerOptions)
    worker.on('completed', (job, result) => { job.data.cents.toFixed(result) })
    worker.on('failed', (job, error, prev) => { job?.data.cents.toFixed(); error.message + prev })
    worker.once('ready', () => undefined).off('ready', () => undefined)
    new Queue<Data>('x', queueOptions).on('waiting', (job) => { job.data.cents.toFixed() })`,
  'a variable of BullMQ’s type': `
    export const queue: bullmq.Queue<Data> = new Queue<Data>('x', queueOptions)
    export const worker: bullmq.Worker<Data> = new Worker<Data>('x', async () => 1, workerOptions)
    export const jobs: bullmq.Job<Data>[] = await queue.getWaiting()`,
  'a class of one’s own': `
    export class Charges extends Queue<Data> {
      charge(data: Data) { return this.add('charge', data) }
    }
    export class Charger extends Worker<Data, number> {
      constructor() { super('x', async (job) => job.data.cents, workerOptions) }
    }`,
  'a function of job as BullMQ’s Processor': `
    const process: bullmq.Processor<Data, number> = async (job) => job.data.cents
    new Worker<Data, number>('x', process, workerOptions)`,
  'job, token and signal': `
    const process: bullmq.Processor = async (job, token, signal) => {
      await job.moveToDelayed(Date.now() + 1_000, token)
      if (signal?.aborted) throw new bullmq.DelayedError()
    }
    new Worker('x', process, workerOptions)`,
  'the second parameter as the token': `
    new Worker('x', async (job, token) => { await job.extendLock(token!, 1_000) }, workerOptions)`,
  'the options of BullMQ in a variable': `
    const options: bullmq.WorkerOptions = { connection, concurrency: 5, limiter: { max: 1, duration: 1 } }
    new Worker('x', async () => 1, { ...options, ...lock })
    const queued: bullmq.QueueOptions = { connection, prefix: 'p' }
    new Queue('x', { ...queued, ...line })`,
} as const

export type Use = keyof typeof USES

const FOLDER = import.meta.dirname

export type Kind = keyof typeof HEADERS

/** The errors of every use of every kind, from one program. */
export function compileAll(): ReadonlyMap<Kind, ReadonlyMap<Use, readonly string[]>> {
  const kinds = (Object.keys(HEADERS) as Kind[]).map((kind) => {
    const base = { path: join(FOLDER, `virtual-${kind}.ts`), text: HEADERS[kind] + BOTH }
    const uses = Object.entries(USES).map(([use, text], index) => ({
      use: use as Use,
      path: join(FOLDER, `virtual-${kind}-${index}.ts`),
      text: `import { bullmq, connection, line, lock, Queue, Worker, queueOptions, workerOptions, type Data } from './virtual-${kind}.ts'
        ${text}
        export type { Data, Queue, Worker, bullmq, queueOptions, workerOptions, connection, lock, line }`,
    }))
    return { kind, base, uses }
  })
  const files = kinds.flatMap(({ base, uses }) => [base, ...uses])
  const errorsOf = errorsIn(new Map(files.map(({ path, text }) => [path, text] as const)))
  return new Map(
    kinds.map(({ kind, base, uses }) => {
      const errors = uses.map(
        ({ use, path }) => [use, [...errorsOf(base.path), ...errorsOf(path)]] as const,
      )
      return [kind, new Map(errors)] as const
    }),
  )
}

function errorsIn(texts: ReadonlyMap<string, string>): (path: string) => readonly string[] {
  const options = compilerOptions()
  const host = ts.createCompilerHost(options)
  const real = { ...host }
  host.fileExists = (path) => texts.has(path) || real.fileExists(path)
  host.readFile = (path) => texts.get(path) ?? real.readFile(path)
  host.getSourceFile = (path, ...rest) => {
    const text = texts.get(path)
    return text === undefined
      ? real.getSourceFile(path, ...rest)
      : ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true)
  }
  const program = ts.createProgram([...texts.keys()], options, host)
  return (path) =>
    program
      .getSemanticDiagnostics(program.getSourceFile(path))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' ').slice(0, 200))
}

function compilerOptions(): ts.CompilerOptions {
  const path = join(FOLDER, '../../tsconfig.json')
  const { config } = ts.readConfigFile(path, (file) => ts.sys.readFile(file)) as {
    readonly config: unknown
  }
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, join(FOLDER, '../..'))
  return { ...options, noUnusedLocals: false }
}
