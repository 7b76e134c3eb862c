/**
 * What the dashboard asks and the alerts look at, of a real Prometheus that scrapes a real worker.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import { startPrometheus, type PrometheusServer } from '../telemetry/prometheus-server.ts'
import { prometheus, startScrapedWorker, type ScrapedWorker } from '../telemetry/scraped-worker.ts'
import { alerts, dashboard, type Alert } from './files.ts'

const fixture = useFleet({ masters: 5 })

/** A busy machine scrapes and starts late; nothing here is promised within a time. */
const LIMIT_MS = 60_000
const LOOK_MS = 100

interface Scraped {
  readonly worker: ScrapedWorker
  readonly server: PrometheusServer
}

/** A worker that does `jobs` jobs for one customer, and a Prometheus that has seen them all. */
async function scraped(jobs: number): Promise<Scraped> {
  const worker = await startScrapedWorker(fixture)
  const server = fixture.closing(await startPrometheus(prometheus ?? '', worker.address))
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
  return { worker, server }
}

/** The alerts for which there is something to show. */
async function raised(
  server: PrometheusServer,
  expression: (alert: Alert) => string,
): Promise<readonly string[]> {
  await delay(LOOK_MS)
  const found: string[] = []
  for (const alert of alerts()) {
    if ((await server.query(expression(alert))).length > 0) found.push(alert.alert)
  }
  return found
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
    const { server } = await scraped(3)
    const queries = dashboard().panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    const usual = queries.filter((expr) => !OF_FAULTS.some((pattern) => pattern.test(expr)))
    expect(usual.length).toBeGreaterThan(10)
    for (const expr of usual) {
      const samples = await server.query(asked(expr))
      expect(samples.length, expr).toBeGreaterThan(0)
      for (const { value } of samples) expect(Number(value[1]), expr).not.toBeNaN()
    }
    for (const { alert, expr } of alerts()) expect(await server.query(expr), alert).toEqual([])

    const bad = (): Promise<readonly string[]> => raised(server, ({ expr }) => expr)
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

/** Ten minutes as four seconds, and no wait longer than a second. */
const sooner = ({ alert, expr }: Alert): string =>
  expr
    .replace(/\b([123])0m\b/g, (_, tens: string) => `${Number(tens) * 4}s`)
    .replace(/ (600|60|1)$/m, alert === 'RedlockLeaseWaitHigh' ? ' 0.01' : ' 1')

test.skipIf(prometheus === undefined)(
  'a resource that is held, its line and a frozen worker raise the alerts about work, which end',
  async () => {
    const { worker, server } = await scraped(1)
    const bad = (): Promise<readonly string[]> => raised(server, sooner)
    const isRaised = async (...names: readonly string[]): Promise<boolean> => {
      const found = await bad()
      return names.every((name) => found.includes(name))
    }
    await until('all is well', async () => (await bad()).length === 0, LIMIT_MS)

    const redlock = await fixture.redlock({ leaseMs: 5_000, maxLeaseMs: 20_000 })
    const queue = fixture.namespace
    await redlock.using('customer:1', {}, async () => {
      const inLine = ['RedlockLeaseWaitHigh', 'RedlockOldestJobHigh', 'RedlockLineGrows']
      const areRaised = async (): Promise<boolean> => {
        for (let job = 0; job < 3; job++) await worker.add(1)
        return isRaised(...inLine)
      }
      await until(`${inLine.join()} of ${queue}`, areRaised, LIMIT_MS)
    })
    await until('RedlockJobWaitHigh', () => isRaised('RedlockJobWaitHigh'), LIMIT_MS)

    await worker.started(await worker.add(2, true))
    worker.kill('SIGSTOP')
    const isOver = async (): Promise<boolean> =>
      (await redlock.inspect('customer:2')).masters.every(({ holder }) => holder === undefined)
    await until('the lease of the frozen worker is over', isOver, LIMIT_MS)
    worker.kill('SIGCONT')
    await until('RedlockLeaseLost', () => isRaised('RedlockLeaseLost'), LIMIT_MS)

    await until('all is well again', async () => (await bad()).length === 0, LIMIT_MS)
  },
  300_000,
)
