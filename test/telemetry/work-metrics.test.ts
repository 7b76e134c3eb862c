/** `work` at /metrics: the text itself, and what a real Prometheus makes of it. */
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import { startPrometheus } from './prometheus-server.ts'
import { series, type Series } from './prometheus-text.ts'
import { prometheus, startScrapedWorker } from './scraped-worker.ts'

const fixture = useFleet({ masters: 5 })

/** A `work` process that has done `jobs` jobs; returns the host and port where it serves. */
async function working(jobs: number): Promise<string> {
  const { address, finish } = await startScrapedWorker(fixture)
  for (let job = 1; job <= jobs; job++) await finish(job)
  return address
}

const scrape = (address: string): Promise<Response> => fetch(`http://${address}/metrics`)

test('is text that Prometheus reads, with its type and help, and the worker is in it', async () => {
  const address = await working(2)
  const answer = await scrape(address)
  expect(answer.headers.get('content-type')).toContain('text/plain; version=0.0.4')
  expect(await answer.text()).toContain('# TYPE redlock_lease_acquire_duration histogram')
  const holds = (all: readonly Series[]): readonly Series[] =>
    all.filter(({ name }) => name === 'redlock_lease_hold_duration_count')
  await until(
    'both leases are released',
    async () => holds(series(await (await scrape(address)).text()))[0]?.value === 2,
  )
  const all = series(await (await scrape(address)).text())
  const messaging_destination_name = fixture.namespace
  const redlock_namespace = fixture.namespace
  const find = (name: string): readonly Series[] => all.filter((each) => each.name === name)
  expect(find('redlock_quorum_margin')).toMatchObject([{ value: 2, labels: { redlock_namespace } }])
  expect(find('redlock_job_wait_duration_count')).toMatchObject([
    { value: 2, labels: { messaging_destination_name } },
  ])
  expect(holds(all)[0]?.labels).toMatchObject({
    ...{ redlock_namespace, redlock_resource_class: 'customer', redlock_end: 'released' },
  })
  expect(find('redlock_worker_breaker_open')).toMatchObject([{ value: 0 }])
  const voting = find('redlock_master_state').filter(({ labels }) => {
    return labels['redlock_master_state'] === 'voting'
  })
  expect(voting.map(({ value }) => value)).toEqual([1, 1, 1, 1, 1])
})

test.skipIf(prometheus === undefined)('a real Prometheus scrapes it', async () => {
  const server = await startPrometheus(prometheus ?? '', await working(3))
  fixture.defer(() => server.close())
  const value = async (query: string): Promise<string | undefined> =>
    (await server.query(query))[0]?.value[1]
  await until('it has scraped all three', async () => {
    return (await value('sum(redlock_job_wait_duration_count)')) === '3'
  })
  expect(await value('up{job="work"}')).toBe('1')
  expect(await value('redlock_quorum_margin')).toBe('2')
  expect(await value('sum(redlock_master_state{redlock_master_state="voting"})')).toBe('5')
  await until('all leases are released', async () => {
    return (await value('sum(redlock_lease_hold_duration_count{redlock_end="released"})')) === '3'
  })
  const p99 = 'histogram_quantile(0.99, sum by (le) (redlock_lease_acquire_duration_bucket))'
  expect(Number(await value(p99))).toBeGreaterThan(0)
  const granted = await server.query(
    'redlock_master_votes_total{redlock_question="acquire", redlock_outcome="granted"}',
  )
  expect(granted).toHaveLength(5)
  const { metric } = granted[0] ?? { metric: {} }
  expect(metric).toMatchObject({ job: 'work', redlock_namespace: fixture.namespace })
})
