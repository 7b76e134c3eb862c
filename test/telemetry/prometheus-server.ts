/**
 * A real Prometheus that scrapes one address, where the program is installed (Debian:
 * `apt-get install prometheus`).
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { takePort } from '../../src/testing/free-port.ts'
import { until } from '../fixtures.ts'

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [number, string]
}

export interface PrometheusServer {
  query(promql: string): Promise<readonly Sample[]>
  close(): Promise<void>
}

export async function startPrometheus(binary: string, target: string): Promise<PrometheusServer> {
  const directory = await mkdtemp(join(tmpdir(), 'prometheus-'))
  const port = await takePort('127.0.0.1')
  const config = `
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: work
    static_configs: [{ targets: ['${target}'] }]
`
  await writeFile(join(directory, 'prometheus.yml'), config)
  const child = spawn(
    binary,
    [
      `--config.file=${join(directory, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  const ended = once(child, 'exit')
  const base = `http://127.0.0.1:${port}`
  const server: PrometheusServer = {
    async query(promql) {
      const answer = await fetch(`${base}/api/v1/query?query=${encodeURIComponent(promql)}`)
      const { data } = (await answer.json()) as { data: { result: readonly Sample[] } }
      return data.result
    },
    async close() {
      child.kill('SIGTERM')
      await ended
      await rm(directory, { recursive: true, force: true })
    },
  }
  try {
    const isReady = (): Promise<boolean> =>
      fetch(`${base}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      )
    await until('Prometheus is ready', isReady, 60_000)
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}
