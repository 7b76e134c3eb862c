/** The command `work` of an application that has not installed OpenTelemetry's SDK. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { packedApp, type PackedApp } from '../stories/packed-app.ts'

let app: PackedApp
beforeAll(() => {
  app = packedApp()
  writeFileSync(app.path('worker.js'), WORKER)
}, 240_000)
afterAll(() => {
  app.remove()
})

/** As much of a worker as the command uses. */
const WORKER = `
export default {
  name: 'idle',
  on() {},
  isRunning: () => true,
  isStarting: () => false,
  isPaused: () => false,
  drain: async () => {},
}
`
const SDK = '@opentelemetry/sdk-metrics@2.12.0 @opentelemetry/exporter-prometheus@0.223.0'
const HEALTH = ['--health-port', '0', '--health-host', '127.0.0.1']
const bin = (): string => app.path('node_modules', '.bin', 'bullmq-redlock')

it('asked for metrics, it ends with what to install', () => {
  const said = app.run(bin(), ['work', 'worker.js', ...HEALTH, '--metrics'])
  expect(said.status).toBe(2)
  expect(said.stderr).toContain(`\`npm install ${SDK}\``)
})

it('metrics need a port to be served on', () => {
  const said = app.run(bin(), ['work', 'worker.js', '--metrics'])
  expect(said.status).toBe(2)
  expect(said.stderr).toContain('--health-port')
})

it('without, it serves /healthz, and /metrics says what to install', async () => {
  const work = spawn(bin(), ['work', 'worker.js', ...HEALTH], { cwd: app.path('.') })
  try {
    const said = createInterface(work.stderr)
    const [line] = (await once(said, 'line')) as [string]
    expect(line).toContain(`no metrics: Not installed: ${SDK}. Run: \`npm install ${SDK}\``)
    const [address = ''] = /http:\/\/[\d.:]+/.exec(line) ?? []
    expect(await fetch(`${address}/healthz`)).toMatchObject({ status: 200 })
    const metrics = await fetch(`${address}/metrics`)
    expect(metrics.status).toBe(501)
    expect(await metrics.text()).toContain(`npm install ${SDK}`)
  } finally {
    work.kill('SIGTERM')
    await once(work, 'exit')
  }
})
