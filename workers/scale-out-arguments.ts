/** What workers/scale-out.ts is asked for: its own flags, the worker, and the flags of the worker. */
import { parseArgs } from 'node:util'
import { UsageError, wholeNumber } from './flags.ts'

export const HELP = `
Runs several processes of a worker; what follows -- goes to each of them.

  tsx workers/scale-out.ts --processes 4 workers/customer-ledger.ts -- --master URL …

  --processes N       how many. Default 3
  -h, --help

--enqueue and --bootstrap are done once, before the workers start. Without DATABASE_URL the processes share
an embedded PostgreSQL that is gone at the end. Exit codes: those of the workers, the worst one; 1 when a
worker crashed too often.
`

/** Flags of a worker that one process must do for all. */
const ONCE = ['--enqueue', '--enqueue-only', '--bootstrap']

export interface ScaleOutArguments {
  readonly worker: string
  readonly processes: number
  /** Arguments of the one process that does what must be done once; empty when there is nothing. */
  readonly once: readonly string[]
  /** Arguments of each process. */
  readonly each: readonly string[]
  readonly enqueueOnly: boolean
}

/** @throws UsageError that names the flag. */
export function readArguments(argv: readonly string[]): ScaleOutArguments | 'help' {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length
  const { values, positionals } = parse(argv.slice(0, end))
  const workerArgs = argv.slice(end + 1)
  if (values.help === true) return 'help'
  const [worker] = positionals
  if (worker === undefined) {
    throw new UsageError('Expected the worker to run, such as workers/customer-ledger.ts')
  }
  const once = workerArgs.filter((argument) => ONCE.includes(argument) && argument !== '--enqueue')
  if (workerArgs.includes('--enqueue')) once.push('--enqueue-only')
  const each = workerArgs.filter((argument) => !ONCE.includes(argument))
  return {
    worker,
    processes: wholeNumber(values.processes, { flag: '--processes', fallback: 3, min: 1 }),
    once: once.length > 0 ? [...each, ...once] : [],
    each,
    enqueueOnly: workerArgs.includes('--enqueue-only'),
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: { help: { type: 'boolean', short: 'h' }, processes: { type: 'string' } },
      allowPositionals: true,
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new UsageError(`${why}. Flags of the worker go after --. Try --help`)
  }
}
