#!/usr/bin/env node
/** The program `bullmq-redlock`. */
import '../../telemetry/join.ts'
import { EXIT } from './exit-code.ts'
import { runProgram } from './program.ts'

// `bullmq-redlock leases | head`: a reader that has seen enough is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.attention)
})

async function main(): Promise<void> {
  await runProgram(process.argv.slice(2))
  // A command that was interrupted may still wait for a server that does not answer.
  if (process.exitCode === EXIT.interrupted) process.exit()
}

// No `await` at the top: the published program is CommonJS.
void main()
