/** The alert rules as Prometheus itself reads them, and their own tests. */
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
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

// `monitoring.test.ts` sees that each alert has a series for which it fires, and a silent one.
describe.skipIf(promtool === undefined)('promtool', () => {
  it('accepts the rules and the configuration', async () => {
    const rules = await run('check', 'rules', join(ROOT, ALERTS))
    expect(rules).toMatchObject({ ok: true })
    expect(rules.text).toContain(`SUCCESS: ${alerts().length} rules found`)
    const configuration = join(ROOT, dirname(ALERTS), 'prometheus.yml')
    expect(await run('check', 'config', configuration)).toMatchObject({ ok: true })
  })

  it("runs the rules' tests", async () => {
    expect(await run('test', 'rules', join(ROOT, ALERTS_TEST))).toMatchObject({ ok: true })
  })
})
