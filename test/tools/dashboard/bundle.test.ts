/**
 * The dashboard inside a bundle: code that a bundler has moved away from the files of the package.
 */
import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { compileInto } from '../../support/compiled.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
let directory = ''

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bullmq-redlock-bundle-'))
  await cp(join(ROOT, 'package.json'), join(directory, 'package.json'))
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  await compileInto(directory)
}, 240_000)
afterAll(() => rm(directory, { recursive: true, force: true }))

const APPLICATION = `
import { createServer } from 'node:http'
import { dashboardHandler } from './dist/dashboard.js'
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

/** What the packages that are CommonJS need in an ES module. */
const REQUIRE =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"

test.each(['esm', 'cjs'] as const)('as %s it serves the page and its files', async (format) => {
  await writeFile(join(directory, 'app.js'), APPLICATION)
  const outfile = join(directory, format, 'app.' + (format === 'esm' ? 'mjs' : 'cjs'))
  await build({
    ...{ entryPoints: [join(directory, 'app.js')], bundle: true, platform: 'node', format },
    ...{ outfile, logLevel: 'silent', external: ['ioredis', 'bullmq', 'pino'] },
    banner: format === 'esm' ? { js: REQUIRE } : {},
  })
  const said = spawnSync(process.execPath, [outfile], { encoding: 'utf8', timeout: 30_000 })
  expect(said.stderr).toBe('')
  expect(said.stdout.trim().split('\n')).toEqual(
    ['/', '/page.css', '/page.js', '/charts.js', '/state'].map((path) => `${path} 200 true`),
  )
})
