/** What the package adds to an application that has bullmq and ioredis: in weight, and in time. */
import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { importTimes } from '../../bench/import-times.ts'
import { packedApp, succeeded, type PackedApp } from '../stories/packed-app.ts'

let app: PackedApp
beforeAll(() => {
  app = packedApp()
}, 240_000)
afterAll(() => {
  app.remove()
})

/** bullmq and ioredis alone are 16 MB in 20. */
it('an application with bullmq and ioredis has at most 38 packages and 22 MB', () => {
  const packages = succeeded(app.run('npm', ['ls', '--all', '--parseable']))
    .trim()
    .split('\n')
  const [megabytes] = succeeded(app.run('du', ['-sm', 'node_modules'])).split('\t')
  expect(packages.length).toBeLessThanOrEqual(38)
  expect(Number(megabytes)).toBeLessThanOrEqual(22)
})

it('no SDK of OpenTelemetry is installed', () => {
  expect(existsSync(app.path('node_modules', '@opentelemetry', 'api'))).toBe(true)
  expect(existsSync(app.path('node_modules', '@opentelemetry', 'sdk-metrics'))).toBe(false)
})

it('to import it takes at most 1.5 times as long as to import bullmq', async () => {
  const times = await importTimes(app.path('.'), ['bullmq', 'bullmq-redlock'], 15)
  expect(times.ratio('bullmq-redlock', 'bullmq', 'ms').median).toBeLessThan(1.5)
})

const LOADED = `
  require('bullmq-redlock/ENTRY')
  const loaded = Object.keys(require.cache).map((path) => path.split('node_modules/').at(-1))
  console.log(JSON.stringify(loaded))
`
const filesOf = (entry: string): readonly string[] =>
  JSON.parse(succeeded(app.run('node', ['-e', LOADED.replace('/ENTRY', entry)]))) as string[]

it('neither ioredis nor pino is loaded before it is needed', () => {
  expect(filesOf('').filter((path) => /^(ioredis|pino)\//.test(path))).toEqual([])
})

it('a producer loads no lock, no worker, and no telemetry', () => {
  const files = filesOf('/queue')
  const packages = files.map((path) => /^(@[^/]+\/)?[^/]+/.exec(path)?.[0])
  expect(packages).not.toContain('@opentelemetry/api')
  const own = files.filter((path) => path.startsWith('bullmq-redlock/'))
  const code = own.map((path) => readFileSync(app.path('node_modules', path), 'utf8')).join('')
  expect(code.match(/^class (Redlock|Locked\w+|\w+Lease) /gm)).toEqual(['class LockedQueue '])
})
