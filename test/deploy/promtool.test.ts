/** The alert rules as Prometheus itself reads them, and their own tests. */
import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { findProgram } from '../../scripts/find-program.ts'
import { ALERTS, alerts, ALERTS_TEST, ROOT } from './files.ts'

const promtool = findProgram('promtool')
if (promtool === undefined) {
  console.log(
    'skipped: promtool on the alert rules, because it is not installed (apt-get install prometheus)',
  )
}

interface Said {
  readonly ok: boolean
  readonly text: string
}

function run(...args: readonly string[]): Promise<Said> {
  return new Promise((resolve) => {
    execFile(promtool ?? '', args, (error, out, err) => {
      resolve({ ok: error === null, text: out + err })
    })
  })
}

describe.skipIf(promtool === undefined)('promtool', () => {
  let directory: string

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'alerts-'))
    await cp(join(ROOT, dirname(ALERTS)), directory, { recursive: true })
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))

  const file = (path: string): string => join(directory, basename(path))

  it('accepts the rules and the configuration', async () => {
    const rules = await run('check', 'rules', file(ALERTS))
    expect(rules).toMatchObject({ ok: true })
    expect(rules.text).toContain(`SUCCESS: ${alerts().length} rules found`)
    expect(await run('check', 'config', file('prometheus.yml'))).toMatchObject({ ok: true })
  })

  it("runs the rules' tests", async () => {
    expect(await run('test', 'rules', file(ALERTS_TEST))).toMatchObject({ ok: true })
  })

  it.each(alerts())("$alert: the rules' tests fail without it", async ({ alert }) => {
    const rules = alerts().filter((each) => each.alert !== alert)
    await writeFile(file(ALERTS), stringify({ groups: [{ name: 'others', rules }] }))
    const said = await run('test', 'rules', file(ALERTS_TEST))
    expect(said.ok).toBe(false)
    expect(said.text).toContain(`alertname: ${alert}`)
  })

  it.each(alerts())("$alert: the rules' tests fail when it always fires", async ({ alert }) => {
    const rules = alerts().map((each) =>
      each.alert === alert ? { ...each, expr: 'vector(1)', for: '0s' } : each,
    )
    await writeFile(file(ALERTS), stringify({ groups: [{ name: 'all', rules }] }))
    const said = await run('test', 'rules', file(ALERTS_TEST))
    expect(said.ok).toBe(false)
    expect(said.text).toContain(`alertname: ${alert}`)
  })
})
