/**
 * What the dashboard asks and the alerts look at, of a real Prometheus that scrapes a real worker.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import { startPrometheus, type PrometheusServer } from '../telemetry/prometheus-server.ts'
import { prometheus, startScrapedWorker } from '../telemetry/scraped-worker.ts'
import { alerts, dashboard } from './files.ts'

const fixture = useFleet({ masters: 5 })

/** A busy machine scrapes and starts late; nothing here is promised within a time. */
const LIMIT_MS = 60_000
const LOOK_MS = 100

/** A worker that does `jobs` jobs for one customer, and a Prometheus that has seen them all. */
async function scraped(jobs: number): Promise<PrometheusServer> {
  const worker = await startScrapedWorker(fixture)
  const server = await startPrometheus(prometheus ?? '', worker.address)
  fixture.defer(() => server.close())
  const isIdle = async (): Promise<boolean> => {
    await delay(LOOK_MS)
    return (await server.query('redlock_quorum_margin')).length === 1
  }
  await until('the idle worker is scraped', isIdle, LIMIT_MS)
  // One at a time: a rate needs a counter that was seen before it grew.
  for (let job = 1; job <= jobs; job++) {
    await worker.finish(1)
    const isScraped = async (): Promise<boolean> => {
      await delay(LOOK_MS)
      const [sample] = await server.query('sum(redlock_job_wait_duration_count)')
      return sample?.value[1] === `${job}`
    }
    await until('the job is scraped', isScraped, LIMIT_MS)
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
  'every panel has data and no alert is broken; killed masters raise the alerts in their order',
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

    const bad = async (): Promise<readonly string[]> => {
      await delay(LOOK_MS)
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
      const alarm = JSON.stringify(expected[index])
      await until(alarm, async () => JSON.stringify(await bad()) === alarm, LIMIT_MS)
    }
    // Back, and empty: quarantined for 20 seconds.
    await first?.restart()
    const seen = async (): Promise<boolean> => (await bad()).includes('RedlockMasterQuarantined')
    await until('the quarantine is seen', seen, LIMIT_MS)
  },
  300_000,
)
