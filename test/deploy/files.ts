/** The files in deploy/, read. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'

export const ROOT: string = join(import.meta.dirname, '..', '..')

export const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

export const yamlOf = (path: string): unknown => parse(textOf(path), { merge: true })

/** A file of several documents. */
export function yamlsOf(path: string): readonly unknown[] {
  return parseAllDocuments(textOf(path)).map((document) => {
    const [error] = document.errors
    if (error !== undefined) throw error
    return document.toJS() as unknown
  })
}

export interface Alert {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

export const ALERTS = 'deploy/prometheus/alerts.yml'
export const ALERTS_TEST = 'deploy/prometheus/alerts.test.yml'
export const DASHBOARD = 'deploy/grafana/dashboards/bullmq-redlock.json'

export function alerts(): readonly Alert[] {
  const { groups } = yamlOf(ALERTS) as { groups: readonly { rules: readonly Alert[] }[] }
  return groups.flatMap(({ rules }) => rules)
}

export interface Variable {
  readonly name: string
  readonly type: string
  readonly definition?: string
}

export interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description: string
  readonly datasource: { readonly uid: string }
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>
  readonly fieldConfig: { readonly defaults: { readonly unit: string } }
  readonly targets: readonly {
    readonly refId: string
    readonly expr: string
    readonly datasource: { readonly uid: string }
  }[]
}

export interface Dashboard {
  readonly uid: string
  readonly schemaVersion: number
  readonly templating: { readonly list: readonly Variable[] }
  readonly panels: readonly Panel[]
}

export const dashboard = (): Dashboard => JSON.parse(textOf(DASHBOARD)) as Dashboard
