/** docs/telemetry.md and docs/logging.md name every metric, span and event, and no others. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { EVENTS } from '../../src/event-log.ts'
import { METRICS } from '../../src/telemetry/instruments.ts'
import { SPANS } from '../../src/telemetry/spans.ts'
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

it('every event with its level, fields and message', () => {
  const registered = Object.entries(EVENTS).map(([name, { level, fields, message }]) => [
    ...[name, level, fields.join(' '), message],
  ])
  expect(rowsOf('logging.md', 'Events')).toEqual(registered)
})

it('logs every listed event, and no other', () => {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  const sources = files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => ({ file, text: readFileSync(join(root, 'src', file), 'utf8') }))
  const logged = sources.flatMap(({ text }) =>
    [...text.matchAll(/\.event\(\s*'([^']+)'/g)].map(([, name]) => name),
  )
  expect([...new Set(logged)].sort()).toEqual(Object.keys(EVENTS).sort())
  const past = sources.filter(({ file, text }) => {
    const ofLogging = file === 'event-log.ts' || file === 'logger.ts'
    return !ofLogging && /(?:\blog|\blogger|#log)\.(?:debug|info|warn|error)\(/.test(text)
  })
  expect(past.map(({ file }) => file)).toEqual([])
})
