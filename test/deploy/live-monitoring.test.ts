/**
 * What the dashboard asks and the alerts look at, of a real Prometheus that scrapes a real worker.
 */
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import { startPrometheus, type PrometheusServer } from '../telemetry/prometheus-server.ts'
import { prometheus, startScrapedWorker } from '../telemetry/scraped-worker.ts'
import { alerts, dashboard } from './files.ts'

const fixture = useFleet({ masters: 5 })

/** A worker that does `jobs` jobs for one customer, and a Prometheus that has seen them all. */
async function scraped(jobs: number): Promise<PrometheusServer> {
  const worker = await startScrapedWorker(fixture)
  const server = await startPrometheus(prometheus ?? '', worker.address)
  fixture.defer(() => server.close())
  await until('the worker is scraped', async () => {
    return (await server.query('redlock_quorum_margin')).length === 1
  })
  // One at a time: a rate needs a counter that was seen before it grew.
  for (let job = 1; job <= jobs; job++) {
    await worker.finish(1)
    await until('the job is scraped', async () => {
      const [sample] = await server.query('sum(redlock_job_wait_duration_count)')
      return sample?.value[1] === `${job}`
    })
  }
  return server
}

/** These have nothing to show while all is well. */
const OF_FAULTS = [/"not-ready\|/, /redlock_reason/, /lease_splits/, /redlock_worker_breaker/]

const asked = (expr: string): string =>
  expr
    .replaceAll('$namespace', '.*')
    .replaceAll('$queue', '.*')
    .replaceAll('$__rate_interval', '1m')
    .replaceAll('$__range', '1h')

test.skipIf(prometheus === undefined)(
  'every panel has data, and no alert is broken',
  async () => {
    const server = await scraped(3)
    const queries = dashboard().panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    const usual = queries.filter((expr) => !OF_FAULTS.some((pattern) => pattern.test(expr)))
    expect(usual.length).toBeGreaterThan(10)
    for (const expr of usual) {
      const samples = await server.query(asked(expr))
      expect(samples.length, expr).toBeGreaterThan(0)
      for (const { value } of samples) expect(Number(value[1]), expr).not.toBeNaN()
    }
    for (const { alert, expr } of alerts()) expect(await server.query(expr), alert).toEqual([])
  },
  60_000,
)

test.skipIf(prometheus === undefined)(
  'masters that are killed one after the other raise the alerts in their order',
  async () => {
    const server = await scraped(1)
    const bad = async (): Promise<readonly string[]> => {
      const found: string[] = []
      for (const { alert, expr } of alerts()) {
        if ((await server.query(expr)).length > 0) found.push(alert)
      }
      return found
    }
    const expected = [
      ['RedlockQuorumMarginOne', 'RedlockMasterNotVoting'],
      ['RedlockQuorumMarginZero', 'RedlockMasterNotVoting'],
      ['RedlockNoQuorum', 'RedlockMasterNotVoting'],
    ]
    const [first, second, third] = fixture.fleet.masters
    for (const [index, master] of [first, second, third].entries()) {
      await master?.kill()
      const alarm = expected[index] ?? []
      await until(`${alarm.join(' and ')} look bad`, async () => {
        return JSON.stringify(await bad()) === JSON.stringify(alarm)
      })
    }
    // Back, and empty: quarantined for 20 seconds.
    await first?.restart()
    await until('the quarantine is seen', async () => {
      return (await bad()).includes('RedlockMasterQuarantined')
    })
  },
  60_000,
)
