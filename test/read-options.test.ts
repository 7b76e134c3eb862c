/** The command lines of this repository's own programs. */
import { expect, test } from 'vitest'
import { runProgram } from './workers/program.ts'

const PROGRAMS = [
  ...['test/sim/main.ts', 'test/combination/main.ts', 'test/model/main.ts', 'test/soak/main.ts'],
  ...['test/model/mutants-main.ts', 'test/specification/main.ts', 'bench/safety/main.ts'],
  ...['bench/dashboard.ts', 'bench/import-time.ts', 'bench/locks/main.ts', 'workers/dev.ts'],
  ...['bench/path.ts', 'bench/services.ts'],
]

test.each(PROGRAMS)('%s explains itself, and what it does not know', async (program) => {
  const help = await runProgram(program, ['--help'])
  expect(help).toMatchObject({ code: 0, err: [] })
  const wrong = await runProgram(program, ['--sees', '3'])
  expect(wrong).toMatchObject({ code: 2, out: [] })
  expect(wrong.err).toEqual([expect.stringContaining("'--sees'"), '', ...help.out])
})

test.each([
  [['--max-states', '0'], 'Expected --max-states to be an integer >= 1, got "0"'],
  [['--max-states='], 'Expected --max-states to be an integer >= 1, got ""'],
  [['--without', 'hope'], /^Expected --without to be one of .*, got "hope"$/],
  [['small'], 'Unexpected argument "small"'],
  [['--small=yes'], /'--small' does not take an argument/],
])('%j is refused before anything is done, with the reason', async (args, reason) => {
  const { code, out, err } = await runProgram('test/model/main.ts', args)
  expect({ code, out }).toEqual({ code: 2, out: [] })
  expect(err[0]).toMatch(reason)
})
