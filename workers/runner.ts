/**
 * Runs an example worker as a process: flags, queue, masters and store in; signals, exit code and a clean
 * end out. An example itself says only what its jobs are and how one is processed.
 */
import type { Job, JobsOptions } from 'bullmq'
import { LockedQueue, LockedWorker, Redlock, type JobLease } from '../src/index.ts'
import { saying, type Say } from './events.ts'
import { EXIT } from './exit-code.ts'
import { FLAGS_HELP, readFlags, UsageError, type FlagDefaults, type Flags } from './flags.ts'
import { describeTally, reportJobs } from './job-events.ts'
import { closeInTime, Closing, untilDrained, watchSignals } from './stopping.ts'
import { readStrikes } from './strikes-file.ts'
import type { Strike } from './strike.ts'

interface NewJob<Data> {
  readonly name: string
  readonly data: Data
  /** Adding a job with an id that the queue knows does nothing. */
  readonly id?: string
}

/** What the processor of an example works on, besides its job. */
export interface Store {
  close(): Promise<void>
}

export interface Example<Data, Result, Kept extends Store> extends FlagDefaults {
  readonly help: string
  connect(databaseUrl: string, flags: Flags): Promise<Kept>
  jobs(strikes: readonly Strike[], flags: Flags): readonly NewJob<Data>[]
  resource(data: Data): string
  process(job: Job<Data, Result>, lease: JobLease, store: Kept): Promise<Result>
  /** One line about a finished job. */
  describe(job: Job<Data, Result>, result: Result): string
  /** Called when the queue is drained; says what came out, and returns whether it is right. */
  conclude?(store: Kept, say: Say): Promise<boolean>
}

/** A lost lease fails the attempt, so there are several; finished jobs stay for an audit. */
const JOB_OPTIONS: JobsOptions = {
  attempts: 5,
  backoff: { type: 'exponential', delay: 200 },
  removeOnComplete: false,
  removeOnFail: false,
}

/** Runs until stopped or drained, and sets the exit code. */
export async function runExample<Data, Result, Kept extends Store>(
  example: Example<Data, Result, Kept>,
): Promise<void> {
  try {
    const flags = readFlags(process.argv.slice(2), process.env, example)
    if (flags === 'help') process.stdout.write(`${example.help.trim()}\n${FLAGS_HELP}\n`)
    else process.exitCode = await run(example, flags, saying(flags.json))
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = error instanceof UsageError ? EXIT.wrongUsage : EXIT.cannotGoOn
  }
}

async function run<Data, Result, Kept extends Store>(
  example: Example<Data, Result, Kept>,
  flags: Flags,
  say: Say,
): Promise<number> {
  const closing = new Closing()
  try {
    const queue = new LockedQueue<Data, Result>(flags.queue, {
      connection: { url: flags.queueUrl },
      resource: (data) => example.resource(data),
    })
    closing.add(() => queue.close())
    queue.on('error', ({ message }) => {
      say('error', `the queue's Redis: ${message}`, { message })
    })
    if (flags.bootstrap) await bootstrap(flags, say)
    if (flags.enqueue) await enqueue(queue, example, flags, say)
    return flags.work ? await work(queue, example, flags, say, closing) : EXIT.done
  } finally {
    await closing.run()
  }
}

async function bootstrap({ masters, leaseMs, maxLeaseMs }: Flags, say: Say): Promise<void> {
  await using redlock = new Redlock({ masters, leaseMs, maxLeaseMs })
  const voting = await redlock.bootstrap({ newFleet: true })
  say('bootstrap', `${voting.length} masters vote`, { voting })
}

async function enqueue<Data, Result, Kept extends Store>(
  queue: LockedQueue<Data, Result>,
  example: Example<Data, Result, Kept>,
  flags: Flags,
  say: Say,
): Promise<void> {
  const jobs = example.jobs(await readStrikes(flags.input), flags)
  await queue.addBulk(
    jobs.map(({ name, data, id }) => ({
      name,
      data,
      opts: id === undefined ? JOB_OPTIONS : { ...JOB_OPTIONS, jobId: id },
    })),
  )
  say('enqueued', `${jobs.length} jobs on ${flags.queue}`, { jobs: jobs.length })
}

async function work<Data, Result, Kept extends Store>(
  queue: LockedQueue<Data, Result>,
  example: Example<Data, Result, Kept>,
  flags: Flags,
  say: Say,
  closing: Closing,
): Promise<number> {
  const store = await connectStore(example, flags, say, closing)
  const { masters, leaseMs, maxLeaseMs } = flags
  const redlock = new Redlock({ masters, leaseMs, maxLeaseMs })
  closing.add(() => redlock.close())
  const worker = new LockedWorker<Data, Result>(
    flags.queue,
    (job, lease) => example.process(job, lease, store),
    {
      connection: { url: flags.queueUrl },
      redlock,
      leaseMs,
      concurrency: flags.concurrency,
      resource: (job) => example.resource(job.data),
    },
  )
  const stopping = watchSignals()
  closing.add(() => closeInTime(worker))
  closing.add(() => {
    stopping.forget()
  })
  const tally = reportJobs(worker, say, (job, result) => example.describe(job, result))
  say('ready', `takes jobs from ${flags.queue}`, { pid: process.pid })

  const drained = flags.untilDrained ? untilDrained(queue, stopping.signal) : undefined
  const end = await Promise.race([stopping.stopped, ...(drained === undefined ? [] : [drained])])
  if (end === 'SIGINT' || end === 'SIGTERM') {
    say('stopping', `${end}: finishes the jobs it has`, { signal: end })
    return end === 'SIGINT' ? EXIT.interrupted : EXIT.done
  }
  const right = (await example.conclude?.(store, say)) ?? true
  say('drained', describeTally(tally, end.failed), { ...tally, failed: end.failed })
  return right && end.failed === 0 ? EXIT.done : EXIT.drainedWithFailures
}

async function connectStore<Data, Result, Kept extends Store>(
  example: Example<Data, Result, Kept>,
  flags: Flags,
  say: Say,
  closing: Closing,
): Promise<Kept> {
  let url = flags.databaseUrl
  if (url === undefined) {
    say(
      'note',
      'no DATABASE_URL: the results stay in an embedded PostgreSQL until this process ends',
    )
    // Only now: an image that has a database leaves this one out.
    const { startEmbeddedPostgres } = await import('./embedded-postgres.ts')
    const embedded = await startEmbeddedPostgres()
    closing.add(() => embedded.close())
    url = embedded.url
  }
  const store = await example.connect(url, flags)
  closing.add(() => store.close())
  return store
}
