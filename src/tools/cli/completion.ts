/** Completion scripts for shells: commands, options, the choices of an option, and files. */
import type { Command } from 'commander'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

export function completionScript(program: Command, shell: Shell): string {
  if (shell === 'bash') return bash(program)
  return shell === 'zsh' ? zsh(program) : fish(program)
}

const names = (command: Command): string =>
  command.options.flatMap(({ long, short }) => [long ?? [], short ?? []].flat()).join(' ')

function bash(program: Command): string {
  const { commands } = program
  const all = commands.map((command) => command.name()).join(' ')
  const cases = commands.map((command) => {
    const values = command.options.flatMap(({ long = '', argChoices }) =>
      argChoices === undefined
        ? []
        : [`      [[ $previous == ${long} ]] && words='${argChoices.join(' ')}'`],
    )
    return [
      `    ${command.name()})`,
      `      words='${names(command)} --help'`,
      ...values,
      '      ;;',
    ]
  })
  return [
    '# bullmq-redlock completion for bash: source <(bullmq-redlock completion bash)',
    '_bullmq_redlock() {',
    '  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words',
    '  if ((COMP_CWORD == 1)); then',
    `    COMPREPLY=($(compgen -W '${all} --help --version' -- "$current"))`,
    '    return',
    '  fi',
    '  case ${COMP_WORDS[1]} in',
    ...cases.flat(),
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '}',
    'complete -o default -F _bullmq_redlock bullmq-redlock',
  ].join('\n')
}

/** zsh runs the functions of bash. */
function zsh(program: Command): string {
  return [
    '#compdef bullmq-redlock',
    '# bullmq-redlock completion for zsh: source <(bullmq-redlock completion zsh)',
    'autoload -U +X compinit && compinit -u',
    'autoload -U +X bashcompinit && bashcompinit',
    bash(program),
  ].join('\n')
}

function fish(program: Command): string {
  const quoted = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`
  const lines = program.commands.flatMap((command) => {
    const name = command.name()
    const within = `-n '__fish_seen_subcommand_from ${name}'`
    return [
      `complete -c bullmq-redlock -n __fish_use_subcommand -f -a ${name} -d ${quoted(command.summary())}`,
      ...command.options.map(({ long = '', description, required, argChoices }) => {
        const values = argChoices === undefined ? '' : ` -a '${argChoices.join(' ')}'`
        const value = required ? ` -r${values}` : ''
        return `complete -c bullmq-redlock ${within} -l ${long.slice(2)}${value} -d ${quoted(description)}`
      }),
    ]
  })
  return [
    '# bullmq-redlock completion for fish: bullmq-redlock completion fish | source',
    ...lines,
  ].join('\n')
}
