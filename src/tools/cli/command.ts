/** What a command is: its help, its options, and what it does. */
import { Argument, Command, Option } from 'commander'
import { takes, type GivenOption } from '../../shown-commands.ts'
import { messageOf } from '../../message-of.ts'
import { resourceName } from '../../names.ts'
import type { Cli } from './cli.ts'
import { UsageError, type ExitCode } from './exit-code.ts'
import { CONFIG, SETTINGS, wholeNumber, type Flags } from './settings.ts'

export interface CommandSpec {
  /** `inspect <resource>`. */
  readonly usage: string
  readonly summary: string
  readonly description: string
  readonly examples: readonly string[]
  readonly options?: readonly Option[]
  /** Is given the arguments in their order, and then the flags. */
  readonly run: (cli: Cli, ...args: never[]) => Promise<ExitCode>
  /**
   * The command ends by itself when its signal aborts, and for no other reason. Others are left
   * where they are, also when their result is not read.
   */
  readonly graceful?: boolean
  /** It runs code of others, which may have opened what would keep the process alive. */
  readonly foreignCode?: boolean
}

export const EXIT_CODES_HELP = `Exit codes:
  0    done, healthy
  1    it ran, and something needs attention: a finding, a violation, an error
  2    the command line or the configuration cannot be used
  3    fewer than a quorum of the masters answer or vote, or the lock service
       grants no lease
  130  stopped with Ctrl-C`

export const YES: Option = new Option('--yes', 'do not ask')

/** A whole number. @throws UsageError, when it is parsed, naming the flag. */
export function numberOption(
  flags: string,
  help: string,
  [min, max]: readonly [min: number, max: number],
  byDefault?: number,
): Option {
  const [source = flags] = flags.split(' ', 1)
  const parse = (value: string): number => wholeNumber({ value, source }, min, max)
  return new Option(flags, help).argParser(parse).default(byDefault)
}

/** May be given several times. */
export function listOption(flags: string, help: string): Option {
  const add = (value: string, before: readonly string[] = []): string[] => [...before, value]
  return new Option(flags, help).argParser(add)
}

/** @throws UsageError for what names no resource, such as a variable of a shell that is not set. */
function resourceIn(value: string): string {
  try {
    return resourceName(value)
  } catch (error) {
    throw new UsageError(messageOf(error))
  }
}

/** Without its action. */
export function commandOf(spec: CommandSpec): Command {
  const { usage, summary, description, options = [] } = spec
  const [name = '', ...words] = usage.split(' ')
  const made = new Command(name).summary(summary).description(description)
  for (const word of words) {
    const argument = new Argument(word)
    made.addArgument(word === '<resource>' ? argument.argParser(resourceIn) : argument)
  }
  for (const option of [...serverOptions(name), JSON_OPTION, ...options]) made.addOption(option)
  const examples = spec.examples.map((example) => `  $ bullmq-redlock ${example}`).join('\n')
  return made.addHelpText('after', `\nExamples:\n${examples}\n\n${EXIT_CODES_HELP}`)
}

const JSON_OPTION = new Option('--json', 'for machines: one JSON value a line')

function serverOptions(command: string): readonly Option[] {
  const settings = [...Object.values(SETTINGS), CONFIG]
  return settings
    .filter(({ servers }) => takes(command, servers))
    .map(({ flag, variable, help, byDefault = '', otherwise = byDefault }) => {
      const text = `${help} (${variable})`
      if (typeof otherwise === 'object') return listOption(flag, text)
      return new Option(flag, otherwise === '' ? text : `${text}; default: ${otherwise}`)
    })
}

/** Those of the settings that were given as flags, for commands that are shown. */
export function givenFlags(flags: Flags): readonly GivenOption[] {
  const settings = [...Object.entries(SETTINGS), ['config', CONFIG]] as const
  return settings.flatMap(([key, { flag: declared, repeated = key, servers }]) => {
    const [flag = ''] = declared.split(' ', 1)
    const values = [flags[repeated] ?? []].flat().map(String)
    return values.map((value) => ({ flag, value, ...(servers && { servers }) }))
  })
}
