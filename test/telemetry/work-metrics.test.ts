/** `work` at /metrics: the text itself. `test/deploy/live-monitoring.test.ts` has a Prometheus. */
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import { series, type Series } from './prometheus-text.ts'
import { startScrapedWorker } from './scraped-worker.ts'

const fixture = useFleet({ masters: 5 })

const scrape = (address: string): Promise<Response> => fetch(`http://${address}/metrics`)

test('is text that Prometheus reads, with its type and help, and the worker is in it', async () => {
  const { address, finish } = await startScrapedWorker(fixture)
  for (const customer of [1, 2]) await finish(customer)
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
