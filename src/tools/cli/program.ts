/** The command line as a whole; what commands do is in `commands/`. */
import { Command, CommanderError } from 'commander'
import { cancel, retry, skip, leaveLines } from './commands/jobs.ts'
import { dashboard } from './commands/dashboard.ts'
import { doctor } from './commands/doctor.ts'
import { leases, inspect, release } from './commands/leases.ts'
import { limit, limits, pause, resume } from './commands/limits.ts'
import { resize, bootstrap } from './commands/fleet.ts'
import { verify } from './commands/verify.ts'
import { why } from './commands/why.ts'
import { work } from './commands/work.ts'
import { reportError, runCommand } from './cli.ts'
import { commandOf, EXIT_CODES_HELP, type CommandSpec } from './command.ts'
import { EXIT, UsageError } from './exit-code.ts'
import { Output } from './output.ts'
import { packageVersion } from './package-version.ts'

const COMMANDS: readonly CommandSpec[] = [
  ...[doctor, leases, inspect, why, release, pause, resume, limit, limits, cancel, retry, skip],
  ...[leaveLines, dashboard, work, bootstrap, resize, verify],
]

/** Runs a command to its end, and keeps its exit code for the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
  const json = args.includes('--json')
  const program = buildProgram(json)
  try {
    await program.parseAsync(withoutHelpOfNothing(program, args), { from: 'user' })
  } catch (error) {
    if (error instanceof UsageError) process.exitCode = reportError(new Output(json), error)
    else if (!(error instanceof CommanderError)) throw error
    // Help and --version end this way as well, with 0.
    else process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage
  }
}

/** A misspelt command is an error, also where its help is asked for. */
function withoutHelpOfNothing(program: Command, args: readonly string[]): readonly string[] {
  const [name = '-'] = args
  const isKnown = name === 'help' || program.commands.some((one) => one.name() === name)
  if (name.startsWith('-') || isKnown) return args
  return args.filter((arg) => arg !== '--help' && arg !== '-h')
}

/**
 * Its commands set `process.exitCode`. Parse errors are thrown as `CommanderError`.
 * @param json parse errors are JSON lines.
 */
export function buildProgram(json = false): Command {
  const program = new Command('bullmq-redlock')
    .description(
      'Inspects and repairs a fleet of lock masters, its leases, and the jobs that wait for them.',
    )
    .version(packageVersion(), '-V, --version')
    .addHelpText(
      'after',
      `
Examples:
  $ export BULLMQ_REDLOCK_MASTERS=redis://lock-1,redis://lock-2,redis://lock-3
  $ bullmq-redlock doctor
  $ bullmq-redlock inspect customer:42

${EXIT_CODES_HELP}

Every setting can be a flag, else an environment variable, else a key of the
--config file.`,
    )
  for (const spec of COMMANDS) {
    // Commander adds the command itself to the arguments.
    const action = async (...given: unknown[]): Promise<void> => {
      process.exitCode = await runCommand(spec, given.slice(0, -1))
    }
    program.addCommand(commandOf(spec).action(action))
  }
  for (const one of [program, ...program.commands]) {
    one.exitOverride().configureOutput({
      outputError: (text) => {
        const said = text.replace(/^error: /, '').trimEnd()
        reportError(new Output(json), new UsageError(json ? said : `${said}\n(see --help)`))
      },
    })
  }
  return program
}
