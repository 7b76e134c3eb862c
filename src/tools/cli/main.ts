#!/usr/bin/env node
/** The program `bullmq-redlock`. */
import '../../telemetry/join.ts'
import { CommanderError } from 'commander'
import { EXIT } from './exit-code.ts'
import { buildProgram } from './program.ts'

// `bullmq-redlock leases | head`: a reader that has seen enough is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.attention)
})

async function main(): Promise<void> {
  try {
    await buildProgram().parseAsync()
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    // Help and --version end this way as well, with 0.
    process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage
  }
  // A command that was interrupted may still wait for a server that does not answer.
  if (process.exitCode === EXIT.interrupted) process.exit()
}

// No `await` at the top: the published program is CommonJS.
void main()
