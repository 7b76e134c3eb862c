/**
 * Alert rules and the Grafana dashboard: they name what the package measures, and say what to do.
 */
import { describe, expect, it } from 'vitest'
import { METRICS } from '../../src/telemetry/instruments.ts'
import { rowsOf } from '../telemetry/doc-tables.ts'
import { ALERTS_TEST, alerts, dashboard, textOf, yamlOf, type Panel } from './files.ts'
import { namesIn } from './promql-names.ts'

const underscored = (name: string): string => name.replaceAll('.', '_')

/** As `work` names them at /metrics. */
const SERIES = new Set(
  METRICS.flatMap(({ kind, name }) => {
    const base = underscored(name)
    if (kind === 'histogram') return [`${base}_bucket`, `${base}_sum`, `${base}_count`]
    return [kind === 'gauge' ? base : `${base}_total`]
  }),
)

/** Labels as documented, each with the text about its values. */
const LABELS = new Map(
  rowsOf('telemetry.md', 'Labels are bounded').map(([label = '', values = '']) => [
    underscored(label),
    values.split(/[^\w-]+/),
  ]),
)
/** Of histograms, and of every scrape. */
const PROMETHEUS_OWN = new Set(['le', 'instance', 'job'])

function expectKnown(promql: string): void {
  const { metrics, labels, values } = namesIn(promql)
  expect(metrics.length, promql).toBeGreaterThan(0)
  for (const metric of metrics) expect(SERIES, promql).toContain(metric)
  for (const label of labels) {
    if (!PROMETHEUS_OWN.has(label)) expect([...LABELS.keys()], promql).toContain(label)
  }
  for (const { label, value } of values) expect(LABELS.get(label), promql).toContain(value)
}

describe.each(alerts())('$alert', ({ alert, expr, labels, annotations }) => {
  it('uses metrics, labels and values that exist', () => {
    expectKnown(expr)
  })

  it('says what happened, and links to what to do', () => {
    expect(Object.keys(annotations).sort()).toEqual(['description', 'runbook', 'summary'])
    expect(labels['severity']).toMatch(/^(critical|warning)$/)
    const [file, anchor] = annotations['runbook']?.split('#') ?? []
    expect([file, anchor]).toEqual(['docs/operations.md', alert.toLowerCase()])
    const operations = textOf('docs/operations.md')
    const section = operations.split(`\n### ${alert}\n`)[1]?.split('\n### ')[0]
    expect(section, `docs/operations.md has no section ${alert}`).toBeDefined()
    for (const part of ['**Means:**', '**Look:**', '**Do:**']) expect(section).toContain(part)
    const inShort = rowsOf('operations.md', 'What each alert means').find(
      ([link]) => link === `[${alert}](#${alert.toLowerCase()})`,
    )
    expect(inShort?.[1]).toBe(labels['severity'])
  })

  it('is tested with a series for which it fires and one for which it is silent', () => {
    const { tests } = yamlOf(ALERTS_TEST) as {
      tests: readonly {
        alert_rule_test: readonly { alertname: string; exp_alerts: readonly unknown[] }[]
      }[]
    }
    const ofThis = tests
      .flatMap((test) => test.alert_rule_test)
      .filter(({ alertname }) => alertname === alert)
    expect(ofThis.some(({ exp_alerts }) => exp_alerts.length > 0)).toBe(true)
    expect(ofThis.some(({ exp_alerts }) => exp_alerts.length === 0)).toBe(true)
  })
})

describe('docs/operations.md', () => {
  it('has a runbook for these alerts and no others', () => {
    const headings = [...textOf('docs/operations.md').matchAll(/^### (Redlock\w+)$/gm)]
    expect(headings.map(([, name]) => name)).toEqual(alerts().map(({ alert }) => alert))
  })
})

describe('the Grafana dashboard', () => {
  const { panels, templating, schemaVersion, uid } = dashboard()
  const { list } = templating

  it('takes its data source, namespace and queue from variables', () => {
    expect(schemaVersion).toBeGreaterThanOrEqual(39)
    expect(uid).toBe('bullmq-redlock')
    expect(list.map(({ name, type }) => [name, type])).toEqual([
      ['datasource', 'datasource'],
      ['namespace', 'query'],
      ['queue', 'query'],
    ])
    for (const { definition = '' } of list.slice(1)) {
      const [, metric = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(definition) ?? []
      expect(SERIES).toContain(metric)
      expect([...LABELS.keys()]).toContain(label)
    }
  })

  it('has one id for each panel, and no panel over another', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
    const overlap = (a: Panel['gridPos'], b: Panel['gridPos']): boolean =>
      a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
    for (const [index, one] of panels.entries()) {
      for (const other of panels.slice(index + 1)) {
        const both = `${one.title} and ${other.title}`
        expect(overlap(one.gridPos, other.gridPos), both).toBe(false)
      }
    }
  })

  it.each(panels)('$title: is described, has a unit, and asks for what exists', (panel) => {
    expect(panel.description).not.toBe('')
    expect(panel.fieldConfig.defaults.unit).toMatch(/^(none|s|cps)$/)
    expect(panel.targets.length).toBeGreaterThan(0)
    for (const { uid: source } of [panel.datasource, ...panel.targets.map((t) => t.datasource)]) {
      expect(source).toBe('${datasource}')
    }
    for (const { expr } of panel.targets) {
      for (const [, name] of expr.matchAll(/"\$(\w+)"/g)) {
        expect(list.map((variable) => variable.name)).toContain(name)
      }
      expectKnown(expr)
    }
  })
})
