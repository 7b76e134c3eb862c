/** docs/telemetry.md and docs/logging.md name every metric, span and event, and no others. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { LINES } from '../../src/log.ts'
import { METRICS } from '../../src/telemetry/instruments.ts'
import { SPANS } from '../../src/telemetry/sdk.ts'
import { rowsOf } from './doc-tables.ts'

const root = join(import.meta.dirname, '..', '..')

it('every metric with its kind, unit and description', () => {
  const registered = METRICS.map(({ kind, name, options: { unit, description } }) => [
    ...[name, kind.replace('observed ', ''), unit, description],
  ])
  const documented = rowsOf('telemetry.md', 'Metrics').map(([name, kind, unit, , says]) => [
    ...[name, kind, unit, says],
  ])
  expect(documented.sort()).toEqual(registered.sort())
})

it('every span', () => {
  const documented = rowsOf('telemetry.md', 'Spans').map(([name, , says]) => [name, says])
  expect(documented).toEqual(Object.entries(SPANS))
})

it('every event with its level and message', () => {
  const registered = Object.entries(LINES).map(([name, [level, message]]) => [name, level, message])
  const documented = rowsOf('logging.md', 'Events').map(([name, level, , says]) => [
    ...[name, level, says],
  ])
  expect(documented).toEqual(registered)
})

it('nothing is logged past the channel', () => {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  const past = files
    .filter((file) => file.endsWith('.ts') && file !== 'log.ts' && file !== 'logger.ts')
    .filter((file) => {
      const text = readFileSync(join(root, 'src', file), 'utf8')
      return /(?:\blog|\blogger|#log)\.(?:debug|info|warn|error)\(/.test(text)
    })
  expect(past).toEqual([])
})
