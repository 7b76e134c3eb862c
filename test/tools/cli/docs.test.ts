/** `docs/cli.md` names every command, option, setting and exit code; `--help` works everywhere. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { describe, expect, it, vi } from 'vitest'
import { completionScript } from '../../../src/tools/cli/completion.ts'
import { EXIT } from '../../../src/tools/cli/exit-code.ts'
import { buildProgram } from '../../../src/tools/cli/program.ts'
import { CONFIG, SETTINGS } from '../../../src/tools/cli/settings.ts'
import { cli } from './run-cli.ts'

// Every command is a process of its own, and this machine may be busy.
vi.setConfig({ testTimeout: 60_000 })

const doc = readFileSync(join(import.meta.dirname, '..', '..', '..', 'docs', 'cli.md'), 'utf8')
const program = buildProgram()

/** As its help shows it: `inspect <resource>`. */
function usage(command: Command): string {
  const args = command.registeredArguments.map(
    (argument) => `<${argument.name()}${argument.variadic ? '...' : ''}>`,
  )
  return [command.name(), ...args].join(' ')
}

function section(command: Command): string {
  const heading = `\n## \`${usage(command)}\`\n`
  const [, after] = doc.split(heading)
  if (after === undefined) throw new Error(`docs/cli.md has no section${heading}`)
  return after.split('\n## ')[0] ?? ''
}

const settings = doc.split('\n## Settings\n')[1]?.split('\n## ')[0] ?? ''

describe.each(program.commands.map((command) => [command.name(), command] as const))(
  '%s',
  (_name, command) => {
    it('is documented with every option', () => {
      const text = section(command) + settings
      for (const { flags } of command.options) expect(text).toContain(`\`${flags}\``)
    })

    it('its help has examples and exit codes', () => {
      let help = ''
      command.configureOutput({ writeOut: (text) => (help += text) })
      command.outputHelp()
      expect(help).toContain(`$ bullmq-redlock ${command.name()}`)
      expect(help).toContain('Exit codes:')
    })
  },
)

it('no section is about a command that does not exist', () => {
  const headings = [...doc.matchAll(/^## `(.+)`$/gm)].map(([, heading]) => heading)
  expect(headings).toEqual(
    expect.arrayContaining(program.commands.map((command) => usage(command))),
  )
  expect(headings).toHaveLength(program.commands.length)
})

it('every environment variable and exit code is documented', () => {
  for (const { variable } of [CONFIG, ...Object.values(SETTINGS)]) {
    expect(settings).toContain(`\`${variable}\``)
  }
  const codes = doc.split('\n## Exit codes\n')[1]?.split('\n## ')[0] ?? ''
  for (const code of Object.values(EXIT))
    expect(codes).toMatch(new RegExp(`^\\| ${code} +\\|`, 'm'))
})

it('help and version go to standard output, with exit code 0', async () => {
  const help = await cli(['work', '--help'])
  expect(help).toMatchObject({ code: 0, err: '' })
  expect(help.out).toContain('--health-port <n>')
  const version = await cli(['--version'])
  expect(version).toMatchObject({ code: 0, err: '' })
  expect(version.out).toMatch(/^\d+\.\d+\.\d+\n$/)
})

describe('completion', () => {
  const complete = (...words: readonly string[]): readonly string[] => {
    const script = completionScript(program, 'bash')
    const line = ['bullmq-redlock', ...words].map((word) => `'${word}'`).join(' ')
    const ask = `COMP_WORDS=(${line}); COMP_CWORD=${words.length}; _bullmq_redlock`
    const said = spawnSync('bash', ['-c', `${script}\n${ask}; echo "\${COMPREPLY[@]}"`])
    expect(said.stderr.toString()).toBe('')
    return said.stdout.toString().trim().split(' ')
  }

  it('bash completes commands, the options of one, and the choices of an option', async () => {
    expect((await cli(['completion', 'bash'])).out).toBe(`${completionScript(program, 'bash')}\n`)
    expect(complete('le')).toEqual(['leases', 'leaks', 'leave-lines'])
    expect(complete('leases', '--m')).toEqual(['--master', '--max-lease-ms', '--match'])
    expect(complete('enqueue', 'q', 'f', '--on-bad-line', '')).toEqual(['skip', 'stop'])
  })

  it.each(['zsh', 'fish'])('%s has every command and option', async (shell) => {
    const { out, code } = await cli(['completion', shell])
    expect(code).toBe(0)
    for (const command of program.commands) {
      expect(out).toContain(command.name())
      for (const { long = '' } of command.options) expect(out).toContain(long.slice(2))
    }
  })

  it('a shell that it does not know is refused by name', async () => {
    const said = await cli(['completion', 'tcsh'])
    expect(said.code).toBe(2)
    expect(said.err).toContain('bash, zsh, fish')
  })
})
