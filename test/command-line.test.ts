/** Commands that people copy from what is shown to them. */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { commandLine } from '../src/command-line.ts'
import { withOptions } from '../src/shown-commands.ts'

test.each(['customer:42', 'gpu#3', 'two words', "it's", '$(date)', 'a;b', '', '#1', '~root'])(
  'a shell reads the name `%s` of a command that is shown as it is',
  (name) => {
    const shown = commandLine`release --yes ${name}`.slice(1, -1)
    const words = execFileSync('sh', ['-c', `printf '%s|' ${shown}`], { encoding: 'utf8' })
    expect(words).toBe(`bullmq-redlock|release|--yes|${name}|`)
  },
)

test('a name that begins with a hyphen is no option of a command', () => {
  expect(commandLine`retry ${'invoices'} ${'-7a'}`).toBe('`bullmq-redlock retry -- invoices -7a`')
})

test('a plain name needs no quotes', () => {
  expect(commandLine`why invoices ${'customer:42'}`).toBe(
    '`bullmq-redlock why invoices customer:42`',
  )
})

test('a command that is shown has the options that were given and that it takes', () => {
  const given = [
    { flag: '--master', value: 'redis://a', servers: 'masters' },
    { flag: '--prefix', value: '{bull}', servers: 'queue' },
    { flag: '--namespace', value: 'locks' },
  ] as const
  const shown = (command: string): string => withOptions(`bullmq-redlock ${command}`, given)
  expect(shown('why -- invoices -7')).toBe(
    "bullmq-redlock why --master redis://a --prefix '{bull}' --namespace locks -- invoices -7",
  )
  expect(shown('retry invoices 7')).toBe(
    "bullmq-redlock retry --prefix '{bull}' --namespace locks invoices 7",
  )
  expect(shown('release r')).toBe('bullmq-redlock release --master redis://a --namespace locks r')
  expect(shown("why --prefix '{bull}' invoices 7`, or `bullmq-redlock retry invoices 7`")).toBe(
    "bullmq-redlock why --master redis://a --namespace locks --prefix '{bull}' invoices 7`, " +
      "or `bullmq-redlock retry --prefix '{bull}' --namespace locks invoices 7`",
  )
  for (const other of ['verify log', 'limitless', 'is a program']) {
    expect(shown(other)).toBe(`bullmq-redlock ${other}`)
  }
})
