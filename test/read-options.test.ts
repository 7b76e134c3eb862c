/** The command lines of this repository's own programs. */
import { expect, test } from 'vitest'
import { COMMANDS } from './support/programs.ts'
import { runProgram } from './workers/program.ts'

test.each(COMMANDS)('%s refuses what it does not know, and explains itself', async (program) => {
  const { code, out, err } = await runProgram(program, ['--sees', '3'])
  expect({ code, out }).toEqual({ code: 2, out: [] })
  expect(err.slice(0, 2)).toEqual([expect.stringContaining("'--sees'"), ''])
  expect(err.slice(2).join('\n')).toContain('npm run ')
})
