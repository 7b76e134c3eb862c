/**
 * The dashboard inside a bundle: code that a bundler has moved away from the files of the package.
 */
import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..', '..')
let directory = ''

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bullmq-redlock-bundle-'))
  for (const name of ['src', 'scripts', 'package.json', 'tsconfig.json', 'tsconfig.build.json']) {
    await cp(join(ROOT, name), join(directory, name), { recursive: true })
  }
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  const bin = join(ROOT, 'node_modules', '.bin')
  for (const [program = '', ...args] of [
    ['tsc', '-p', 'tsconfig.build.json'],
    ['tsx', 'scripts/embed-page.ts'],
  ]) {
    const said = spawnSync(join(bin, program), args, { cwd: directory, encoding: 'utf8' })
    expect(said.stderr + said.stdout).toBe('')
  }
}, 120_000)
afterAll(() => rm(directory, { recursive: true, force: true }))

const APPLICATION = `
import { createServer } from 'node:http'
import { dashboardHandler } from './dist/dashboard/index.js'
const handler = dashboardHandler({ masters: ['redis://127.0.0.1:1'] })
const server = createServer((request, response) => handler(request, response))
server.listen(0, '127.0.0.1', async () => {
  const base = 'http://127.0.0.1:' + server.address().port
  for (const path of ['/', '/page.css', '/page.js', '/charts.js', '/state']) {
    const answer = await fetch(base + path)
    console.log(path, answer.status, (await answer.text()).length > 100)
  }
  server.close()
  await handler.close()
})
`

test.each(['esm', 'cjs'] as const)('as %s it serves the page and its files', async (format) => {
  await writeFile(join(directory, 'app.js'), APPLICATION)
  const outfile = join(directory, format, 'app.' + (format === 'esm' ? 'mjs' : 'cjs'))
  await build({
    ...{ entryPoints: [join(directory, 'app.js')], bundle: true, platform: 'node', format },
    ...{ outfile, logLevel: 'silent', external: ['ioredis', 'bullmq', 'pino'] },
  })
  await rm(join(directory, 'src'), { recursive: true, force: true })
  const said = spawnSync(process.execPath, [outfile], { encoding: 'utf8', timeout: 30_000 })
  expect(said.stderr).toBe('')
  expect(said.stdout.trim().split('\n')).toEqual(
    ['/', '/page.css', '/page.js', '/charts.js', '/state'].map((path) => `${path} 200 true`),
  )
})
