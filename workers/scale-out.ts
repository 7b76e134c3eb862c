/**
 * Run workers on many machines, one machine's part: N processes of a worker on the same queue. A process that
 * crashes is started again, later each time; a signal reaches all of them.
 */
import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { EXIT } from './exit-code.ts'
import { UsageError, wholeNumber } from './flags.ts'
import { runOnce, Supervisor } from './supervisor.ts'
import { Closing, watchSignals } from './stopping.ts'

const HELP = `
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

async function main(): Promise<number> {
  const { values, positionals, workerArgs } = readArguments(process.argv.slice(2))
  if (values.help === true) {
    process.stdout.write(`${HELP.trim()}\n`)
    return EXIT.done
  }
  const processes = wholeNumber(values.processes, { flag: '--processes', fallback: 3, min: 1 })
  const [worker] = positionals
  if (worker === undefined) {
    throw new UsageError('Expected the worker to run, such as workers/customer-ledger.ts')
  }
  const once = workerArgs.filter((argument) => ONCE.includes(argument) && argument !== '--enqueue')
  if (workerArgs.includes('--enqueue')) once.push('--enqueue-only')
  const each = workerArgs.filter((argument) => !ONCE.includes(argument))

  const closing = new Closing()
  try {
    const env = { ...process.env }
    if (env['DATABASE_URL'] === undefined) {
      const embedded = await startEmbeddedPostgres()
      closing.add(() => embedded.close())
      env['DATABASE_URL'] = embedded.url
    }
    if (once.length > 0) {
      const code = await runOnce({ worker, args: [...each, ...once], env })
      if (code !== EXIT.done || workerArgs.includes('--enqueue-only')) return code
    }
    const stopping = watchSignals()
    closing.add(() => {
      stopping.forget()
    })
    const supervisor = new Supervisor({ worker, args: each, env }, stopping.signal)
    const codes = supervisor.run(processes)
    const signal = await Promise.race([stopping.stopped, codes.then(() => undefined)])
    const worst = Math.max(...(await codes))
    return signal === 'SIGINT' ? EXIT.interrupted : worst
  } finally {
    await closing.run()
  }
}

function readArguments(argv: readonly string[]) {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length
  try {
    const { values, positionals } = parseArgs({
      args: argv.slice(0, end),
      options: { help: { type: 'boolean', short: 'h' }, processes: { type: 'string' } },
      allowPositionals: true,
    })
    return { values, positionals, workerArgs: argv.slice(end + 1) }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new UsageError(`${why}. Flags of the worker go after --. Try --help`)
  }
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = error instanceof UsageError ? EXIT.wrongUsage : EXIT.cannotGoOn
}
