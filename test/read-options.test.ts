/** The command lines of this repository's own programs. */
import { expect, test } from 'vitest'
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
