/** The command lines of this repository's own programs. */
import { afterEach, expect, test, vi } from 'vitest'
import { flag, integer, oneOf, readOptions } from '../scripts/read-options.ts'
import { runProgram } from './workers/program.ts'

const PROGRAMS = [
  ...['test/sim/main.ts', 'test/combination/main.ts', 'test/model/main.ts', 'test/soak/main.ts'],
  ...['test/model/mutants-main.ts', 'test/specification/main.ts', 'bench/safety/main.ts'],
  ...['bench/dashboard.ts', 'bench/import-time.ts', 'bench/locks/main.ts', 'workers/dev.ts'],
  ...['bench/path.ts', 'bench/services.ts'],
]

test.each(PROGRAMS)('%s refuses what it does not know, and explains itself', async (program) => {
  const { code, out, err } = await runProgram(program, ['--sees', '3'])
  expect({ code, out }).toEqual({ code: 2, out: [] })
  expect(err.slice(0, 2)).toEqual([expect.stringContaining("'--sees'"), ''])
  expect(err.slice(2).join('\n')).toContain('npm run ')
})

const { argv } = process
afterEach(() => {
  vi.restoreAllMocks()
  process.argv = argv
})

/** What a program with these arguments says, and the code with which it ends. */
function saidTo(args: readonly string[]): readonly unknown[] {
  process.argv = [...argv.slice(0, 2), ...args]
  const said: unknown[] = []
  for (const method of ['log', 'error'] as const) {
    vi.spyOn(console, method).mockImplementation((text) => said.push(method, text))
  }
  vi.spyOn(process, 'exit').mockImplementation((code) => {
    said.push(code)
    throw new Error('the end')
  })
  const options = { small: flag, maxStates: integer(5), without: oneOf(['haste', 'care']) }
  expect(() => readOptions('Usage', options)).toThrow('the end')
  return said
}

test.each([
  [['--max-states', '0'], 'Expected --max-states to be an integer >= 1, got "0"'],
  [['--max-states='], 'Expected --max-states to be an integer >= 1, got ""'],
  [['--without', 'hope'], 'Expected --without to be one of haste, care, got "hope"'],
  [['small'], 'Unexpected argument "small"'],
  [['--small=yes'], "Option '--small' does not take an argument"],
])('%j is refused before anything is done, with the reason', (args, reason) => {
  expect(saidTo(args)).toEqual(['error', `${reason}\n\nUsage`, 2])
})

test('--help is answered on standard output', () => {
  expect(saidTo(['--help']).slice(0, 3)).toEqual(['log', 'Usage', 0])
})
