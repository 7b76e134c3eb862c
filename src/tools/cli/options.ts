/** Options that several commands share, and how a command's help ends. */
import { Command, Option } from 'commander'
import { CONFIG, SETTINGS } from './settings.ts'

export const EXIT_CODES_HELP = `Exit codes:
  0    done, healthy
  1    it ran, and something needs attention: a finding, a violation, an error
  2    the command line or the configuration cannot be used
  3    fewer than a quorum of the masters answer or vote, or the lock service
       grants no lease
  130  stopped with Ctrl-C`

export interface CommandHelp {
  readonly summary: string
  readonly description: string
  readonly examples: readonly string[]
  /** Which servers it needs to know. */
  readonly servers: 'masters' | 'queue' | 'both' | 'none'
}

/** A command with the options that say where the servers are. */
export function command(usage: string, help: CommandHelp): Command {
  const made = new Command(usage.split(' ', 1)[0])
  for (const argument of usage.split(' ').slice(1)) made.argument(argument)
  made.summary(help.summary).description(help.description)
  const { servers } = help
  if (servers !== 'none') addServerOptions(made, servers)
  made.option('--json', 'for machines: one JSON value a line')
  const examples = help.examples.map((example) => `  $ bullmq-redlock ${example}`).join('\n')
  made.addHelpText('after', `\nExamples:\n${examples}\n\n${EXIT_CODES_HELP}`)
  return made
}

function addServerOptions(made: Command, needed: CommandHelp['servers']): void {
  for (const { flag, variable, servers = needed, help, byDefault } of Object.values(SETTINGS)) {
    if (needed !== 'both' && needed !== servers) continue
    const text = `${help} (${variable})${byDefault === undefined ? '' : `; default: ${byDefault}`}`
    const option = new Option(flag, text)
    made.addOption(/^--(previous-)?master /.test(flag) ? option.argParser(appended) : option)
  }
  made.option(CONFIG.flag, `JSON file with these settings (${CONFIG.variable})`)
}

/** For an option that may be repeated. */
export function appended(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value]
}
