/** `docs/cli.md` names every command, option, setting and exit code; `--help` works everywhere. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { EXIT } from '../../../src/tools/cli/exit-code.ts'
import { buildProgram } from '../../../src/tools/cli/program.ts'
import { CONFIG, SETTINGS } from '../../../src/tools/cli/settings.ts'
import { cli } from './run-cli.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const SRC = join(ROOT, 'src')
const doc = readFileSync(join(ROOT, 'docs', 'cli.md'), 'utf8')
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

it('every code of a finding is documented', () => {
  const folders = ['tools/operator', 'services'].map((folder) => join(SRC, folder))
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(({ name }) => name.endsWith('.ts'))
      .map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8')),
  )
  const codes = [...files.join('').matchAll(/report\([^,]+, '([a-z-]+)'/g)].map(([, code]) => code)
  expect(codes.length).toBeGreaterThan(25)
  expect(codes.filter((code) => !doc.includes(`\`${code ?? ''}\``))).toEqual([])
})
