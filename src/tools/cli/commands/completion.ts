import { Argument, Command } from 'commander'
import { completionScript, SHELLS, type Shell } from '../completion.ts'
import { EXIT_CODES_HELP } from '../options.ts'

/** It needs no server, so it has none of the shared options. */
export function completionCommand(program: Command): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>', 'the shell that you type in').choices(SHELLS))
    .summary('a script that completes commands and options')
    .description(
      'Prints a script for your shell. It completes the commands, their options and the choices of an option.',
    )
    .addHelpText(
      'after',
      `
Examples:
  $ bullmq-redlock completion bash > /etc/bash_completion.d/bullmq-redlock
  $ bullmq-redlock completion zsh >> ~/.zshrc
  $ bullmq-redlock completion fish > ~/.config/fish/completions/bullmq-redlock.fish

${EXIT_CODES_HELP}`,
    )
    .action((shell: Shell) => {
      process.stdout.write(`${completionScript(program, shell)}\n`)
    })
}
