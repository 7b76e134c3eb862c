/** The command line as a whole; what commands do is in `commands/`. */
import { Command, CommanderError } from 'commander'
import { bootstrapCommand } from './commands/bootstrap.ts'
import { cancelCommand } from './commands/cancel.ts'
import { dashboardCommand } from './commands/dashboard.ts'
import { doctorCommand } from './commands/doctor.ts'
import { inspectCommand } from './commands/inspect.ts'
import { leasesCommand } from './commands/leases.ts'
import { leaveLinesCommand } from './commands/leave-lines.ts'
import { limitCommand, limitsCommand, pauseCommand, resumeCommand } from './commands/limits.ts'
import { resizeCommand } from './commands/resize.ts'
import { releaseCommand } from './commands/release.ts'
import { retryCommand, skipCommand } from './commands/failed-jobs.ts'
import { verifyCommand } from './commands/verify.ts'
import { whyCommand } from './commands/why.ts'
import { workCommand } from './commands/work.ts'
import { reportError } from './cli.ts'
import { EXIT, UsageError } from './exit-code.ts'
import { EXIT_CODES_HELP } from './options.ts'
import { Output } from './output.ts'
import { packageVersion } from './package-version.ts'

const COMMANDS = [
  doctorCommand,
  leasesCommand,
  inspectCommand,
  whyCommand,
  releaseCommand,
  pauseCommand,
  resumeCommand,
  limitCommand,
  limitsCommand,
  cancelCommand,
  retryCommand,
  skipCommand,
  leaveLinesCommand,
  dashboardCommand,
  workCommand,
  bootstrapCommand,
  resizeCommand,
  verifyCommand,
]

/** Runs a command to its end, and keeps its exit code for the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
  const program = buildProgram(args.includes('--json'))
  try {
    await program.parseAsync(withoutHelpOfNothing(program, args), { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    // Help and --version end this way as well, with 0.
    process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage
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
  for (const make of COMMANDS) program.addCommand(make())
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
