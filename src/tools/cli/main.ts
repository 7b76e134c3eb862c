#!/usr/bin/env node
/** The program `bullmq-redlock`. */
import '../../telemetry/join.ts'
import { EXIT } from './exit-code.ts'
import { endWithoutReader } from './output.ts'
import { runProgram } from './program.ts'

for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
process.stdout.on('error', endWithoutReader)

async function main(): Promise<void> {
  await runProgram(process.argv.slice(2))
  // A command that was interrupted may still wait for a server that does not answer.
  if (process.exitCode === EXIT.interrupted) process.exit()
}

// No `await` at the top: the published program is CommonJS.
void main()
