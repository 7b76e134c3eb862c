import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'

const REPOSITORY = join(import.meta.dirname, '..', '..')
const REPORTER = join(REPOSITORY, 'test', 'support', 'closing-line.ts')
const VITEST = join(REPOSITORY, 'node_modules', 'vitest', 'vitest.mjs')

const root = mkdtempSync(join(tmpdir(), 'closing-line-test-'))

afterAll(() => {
  rmSync(root, { recursive: true })
})

interface Run {
  readonly code: number
  readonly lines: readonly string[]
}

/** A run of Vitest over these files, in a process of its own. */
function run(files: Readonly<Record<string, string>>): Promise<Run> {
  const directory = mkdtempSync(join(root, 'run-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
  const reporters = ['--reporter=default', `--reporter=${REPORTER}`]
  const args = [VITEST, 'run', '--root', directory, '--globals', ...reporters]
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, stdout) => {
      const code = error === null ? 0 : Number(error.code)
      resolve({ code, lines: stdout.trimEnd().split('\n') })
    })
  })
}

it('prints the number of tests as the last line', async () => {
  const { code, lines } = await run({
    'a.test.js': `
      it('passes', () => {})
      describe('deep', () => { it('passes', () => {}) })
      it.skip('is skipped', () => {})
      it.todo('is to do')
    `,
    'teardown.js': `export const teardown = () => { console.log('the teardown speaks') }`,
    'vitest.config.js': `export default { test: { globalSetup: './teardown.js' } }`,
  })
  expect(lines.slice(-2)).toEqual(['the teardown speaks', '2 passed, 0 failed, 2 skipped'])
  expect(code).toBe(0)
})

it('counts a failure outside of a test as failed', async () => {
  const { code, lines } = await run({
    'fails.test.js': `it('fails', () => { expect(1).toBe(2) }); it('passes', () => {})`,
    'no-import.test.js': `import './absent.js'`,
    'hook.test.js': `
      describe('group', () => {
        beforeAll(() => { throw new Error('hook') })
        it('does not run', () => {})
      })
    `,
    'unhandled.test.js': `
      it('passes', async () => {
        Promise.reject(new Error('nobody listens'))
        await new Promise((resolve) => setTimeout(resolve, 50))
      })
    `,
  })
  expect(lines.at(-1)).toBe('2 passed, 4 failed, 1 skipped')
  expect(code).toBe(1)
})

it('does not call a run without tests a success', async () => {
  const { code, lines } = await run({})
  expect(lines.at(-1)).toBe('0 passed, 1 failed, 0 skipped')
  expect(code).toBe(1)
})

it('does not call a run a success whose setup failed', async () => {
  const { code, lines } = await run({
    'a.test.js': `it('passes', () => {})`,
    'setup.js': `export const setup = () => { throw new Error('no servers') }`,
    'vitest.config.js': `export default { test: { globalSetup: './setup.js' } }`,
  })
  expect(lines.at(-1)).toBe('0 passed, 1 failed, 0 skipped')
  expect(code).toBe(1)
})
