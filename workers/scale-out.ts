/**
 * Run workers on many machines, one machine's part: N processes of a worker on the same queue. A process that
 * crashes is started again, later each time; a signal reaches all of them.
 */
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { EXIT } from './exit-code.ts'
import { UsageError } from './flags.ts'
import { HELP, readArguments } from './scale-out-arguments.ts'
import { runOnce, Supervisor } from './supervisor.ts'
import { Closing, watchSignals } from './stopping.ts'

async function main(): Promise<number> {
  const asked = readArguments(process.argv.slice(2))
  if (asked === 'help') {
    process.stdout.write(`${HELP.trim()}\n`)
    return EXIT.done
  }
  const { worker, processes, once, each, enqueueOnly } = asked
  const closing = new Closing()
  try {
    const env = { ...process.env }
    if (env['DATABASE_URL'] === undefined) {
      const embedded = await startEmbeddedPostgres()
      closing.add(() => embedded.close())
      env['DATABASE_URL'] = embedded.url
    }
    if (once.length > 0) {
      const code = await runOnce({ worker, args: once, env })
      if (code !== EXIT.done || enqueueOnly) return code
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

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = error instanceof UsageError ? EXIT.wrongUsage : EXIT.cannotGoOn
}
