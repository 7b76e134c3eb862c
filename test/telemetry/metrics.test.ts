/**
 * Metrics of a real run, as Prometheus would read them: every series and label that
 * docs/telemetry.md lists, and no others.
 */
import { metrics } from '@opentelemetry/api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openMetrics, type Metrics } from '../../src/tools/cli/work/metrics.ts'
import type { LockedWorker } from '../../src/index.ts'
import {
  batchProcessor,
  ShardedQueue,
  ShardedWorker,
  Redlock,
  openTelemetry,
  silentLogger,
} from '../../src/index.ts'
import { aborted, granted, MAX_LEASE_MS, until, useFleet } from '../fixtures.ts'
import { rowsOf } from './doc-tables.ts'
import { series, type Series } from './prometheus-text.ts'

const fixture = useFleet({ masters: 5 })
let served: Metrics

beforeAll(async () => {
  served = await openMetrics()
})
afterAll(async () => {
  await served.close()
})

async function scrape(): Promise<readonly Series[]> {
  const { status, body } = await served.page()
  expect(status).toBe(200)
  return series(body)
}

async function value(name: string, labels: Readonly<Record<string, string>>): Promise<number> {
  const found = (await scrape()).filter(
    (each) =>
      each.name === name &&
      Object.entries(labels).every(([label, expected]) => each.labels[label] === expected),
  )
  return found.reduce((sum, each) => sum + each.value, 0)
}

test('what happens to leases is counted', async () => {
  const redlock = await fixture.redlock()
  const redlock_namespace = fixture.namespace
  const lease = await redlock.acquire('customer:42')
  const other = await fixture.redlock()
  expect((await other.tryAcquire('customer:42')).status).toBe('taken')
  await lease.extend()
  expect(await value('redlock_lease_active', { redlock_namespace })).toBe(1)
  await lease.release()
  expect(await value('redlock_lease_active', { redlock_namespace })).toBe(0)
  const ofClass = { redlock_namespace, redlock_resource_class: 'customer' }
  const acquires = 'redlock_lease_acquire_duration_count'
  expect(await value(acquires, { ...ofClass, redlock_outcome: 'granted' })).toBe(1)
  expect(await value(acquires, { ...ofClass, redlock_outcome: 'taken' })).toBe(1)
  expect(await value('redlock_lease_wait_duration_count', ofClass)).toBe(1)
  const ended = { ...ofClass, redlock_end: 'released' }
  expect(await value('redlock_lease_hold_duration_count', ended)).toBe(1)
  expect(await value('redlock_lease_extensions_total', ofClass)).toBe(1)
  // The last votes may come after the verdict.
  const votes = { redlock_namespace, redlock_question: 'acquire', redlock_outcome: 'granted' }
  await until(
    'five have voted',
    async () => (await value('redlock_master_votes_total', votes)) === 5,
  )
  expect(await value('redlock_quorum_margin', { redlock_namespace })).toBe(2)
})

test('shows margin, state and losses of the masters', async () => {
  const redlock = await fixture.redlock({ leaseMs: 2_000 })
  const redlock_namespace = fixture.namespace
  const lease = await redlock.acquire('customer:1', { autoExtend: true })
  await Promise.all(fixture.fleet.masters.slice(0, 3).map((master) => master.kill()))
  await aborted(lease.signal)
  const reason = { redlock_namespace, redlock_reason: 'lapsed' }
  expect(await value('redlock_lease_losses_total', reason)).toBe(1)
  expect(await value('redlock_quorum_margin', { redlock_namespace })).toBe(-1)
  const [gone] = redlock.status().masters
  const redlock_master = gone?.name ?? ''
  const connecting = { redlock_namespace, redlock_master, redlock_master_state: 'connecting' }
  expect(await value('redlock_master_state', connecting)).toBe(1)
  const voting = { ...connecting, redlock_master_state: 'voting' }
  expect(await value('redlock_master_state', voting)).toBe(0)
})

test('a Redlock that was closed holds nothing, and counts no master', async () => {
  const redlock = await fixture.redlock()
  const redlock_namespace = fixture.namespace
  await granted(redlock, 'customer:1')
  expect(await value('redlock_lease_active', { redlock_namespace })).toBe(1)
  expect(await value('redlock_quorum_margin', { redlock_namespace })).toBe(2)
  await redlock.close()
  expect(await value('redlock_lease_active', { redlock_namespace })).toBe(0)
  expect(await value('redlock_quorum_margin', { redlock_namespace })).toBe(-3)
  const state = (redlock_master_state: string): Promise<number> =>
    value('redlock_master_state', { redlock_namespace, redlock_master_state })
  expect([await state('voting'), await state('closed')]).toEqual([0, 5])
})

test('a process whose last worker of a queue was closed has no lines of it', async () => {
  const resource = (): string => 'customer:8'
  const queue = fixture.lockedQueue({ resource })
  await queue.addBulk([1, 2, 3].map((nr) => ({ name: 'charge', data: { nr } })))
  const gate = fixture.gate()
  const redlock = await fixture.redlock()
  let runs = 0
  const processor = (): Promise<void> => {
    runs++
    return gate.passed
  }
  const makeWorker = (): LockedWorker =>
    fixture.lockedWorker(processor, { redlock, resource, logger: silentLogger })
  const workers = [makeWorker(), makeWorker()] as const
  const gauges = [
    ...['job_parked', 'job_runnable', 'job_oldest', 'line_active', 'line_longest'],
  ] as const
  const ofQueue = { messaging_destination_name: fixture.namespace }
  const values = (): Promise<number[]> =>
    Promise.all(gauges.map((name) => value(`redlock_${name}`, ofQueue)))
  await until('one runs', () => runs === 1)
  await workers[0].close(true)
  expect((await values()).every((each) => each > 0)).toBe(true)
  await workers[1].close(true)
  expect(await values()).toEqual([0, 0, 0, 0, 0])
})

test('the lines of all shards of a queue add up', async () => {
  const { host, port } = fixture.fleet.queue
  const common = { connection: { host, port }, shards: 3 }
  const queue = new ShardedQueue<string>(fixture.namespace, { ...common, resource: (name) => name })
  const worker = new ShardedWorker<string>(fixture.namespace, () => Promise.resolve(), {
    ...{ ...common, redlock: await fixture.redlock(), resource: (job) => job.data },
  })
  fixture.defer(async () => {
    await worker.close()
    await queue.close()
  })
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const name of names) await queue.pauseResource(name)
  await queue.addBulk([...names, ...names, 'a'].map((data) => ({ name: 'charge', data })))
  const messaging_destination_name = fixture.namespace
  expect(await value('redlock_line_limited', { messaging_destination_name })).toBe(8)
  expect(await value('redlock_job_parked', { messaging_destination_name })).toBe(17)
  expect(await value('redlock_line_longest', { messaging_destination_name })).toBe(3)
})

test.each([
  ['a paused queue', {}],
  ['a paused queue with tenants', { tenant: (name: string) => name }],
])('of %s nothing is runnable: more workers would start nothing', async (_, shares) => {
  const queue = fixture.lockedQueue<string>({ resource: (name) => name, ...shares })
  fixture.lockedWorker<string>(() => Promise.resolve(), {
    ...{ redlock: await fixture.redlock(), resource: ({ data }) => data, autorun: false },
  })
  for (const name of ['a', 'b', 'a']) await queue.add('charge', name)
  const by = { messaging_destination_name: fixture.namespace }
  expect(await value('redlock_job_runnable', by)).toBe(2)
  expect(await value('redlock_job_parked', by)).toBe(1)
  await queue.pause()
  expect(await value('redlock_job_runnable', by)).toBe(0)
  expect(await value('redlock_job_parked', by)).toBe(1)
  await queue.resume()
  expect(await value('redlock_job_runnable', by)).toBe(2)
})

test('jobs: requeues, parked ones, waits and hand-offs; and in all of this every documented series', async () => {
  const redlock = await fixture.redlock()
  const resource = (): string => 'customer:9'
  const queue = fixture.lockedQueue({ resource })
  const held = await granted(redlock, 'customer:9')
  for (let job = 0; job < 4; job++) await queue.add('charge', {})
  await queue.add('fail', {}, { attempts: 2 })
  const processor = ({ name }: { readonly name: string }): Promise<void> =>
    name === 'fail' ? Promise.reject(new Error('no')) : Promise.resolve()
  const worker = fixture.lockedWorker(processor, { redlock, resource })
  await new Promise((resolve) => worker.once('requeued', resolve))
  const messaging_destination_name = fixture.namespace
  expect(await value('redlock_job_parked', { messaging_destination_name })).toBe(4)
  expect(await value('redlock_line_longest', { messaging_destination_name })).toBe(4)
  // However many jobs wait in a line, one of it runs.
  const runnable = (): Promise<number | undefined> =>
    value('redlock_job_runnable', { messaging_destination_name })
  await until('the first is tried again', async () => (await runnable()) === 1)
  expect(await value('redlock_line_active', { messaging_destination_name })).toBe(1)
  const requeues = { messaging_destination_name, redlock_reason: 'taken' }
  expect(await value('redlock_job_requeues_total', requeues)).toBeGreaterThanOrEqual(1)
  expect(await value('redlock_worker_breaker_open', { messaging_destination_name })).toBe(0)
  await held.release()
  const waits = 'redlock_job_wait_duration_count'
  await until(
    'all have run',
    async () => (await value(waits, { messaging_destination_name })) === 5,
  )
  const ends = (redlock_outcome: string): Promise<number | undefined> =>
    value('redlock_job_ends_total', { messaging_destination_name, redlock_outcome })
  await until('the last has failed for good', async () => (await ends('failed')) === 1)
  expect(await ends('completed')).toBe(4)
  expect(await ends('retried')).toBe(1)
  expect(await value('redlock_job_parked', { messaging_destination_name })).toBe(0)

  const batches = `batches-${fixture.namespace}`
  const several = fixture.lockedQueue({ resource }, batches)
  await several.addBulk([1, 2, 3].map((nr) => ({ name: 'charge', data: { nr } })))
  const run = batchProcessor({ size: 2 }, (jobs) =>
    Promise.allSettled(jobs.map(() => Promise.resolve())),
  )
  fixture.lockedWorker(run, { redlock, resource }, batches)
  const byQueue = { messaging_destination_name: batches }
  await until('three ran', async () => (await several.getCompletedCount()) === 3)
  expect(await value('redlock_job_batches_total', byQueue)).toBe(2)
  // Of both queues: each has its own lines.
  expect(await value('redlock_job_parked', { messaging_destination_name })).toBe(0)
  expect(await value('redlock_job_parked', byQueue)).toBe(0)

  const found = await scrape()
  for (const [name = '', kind = '', , labels = ''] of rowsOf('telemetry.md', 'Metrics')) {
    const own = found.filter((each) => each.name === prometheusName(name, kind))
    if (!RARE.has(name)) expect(own.length, name).toBeGreaterThan(0)
    const seen = new Set(own.flatMap((each) => Object.keys(each.labels)))
    for (const known of ['otel_scope_name', 'otel_scope_version', 'le']) seen.delete(known)
    const documented = labels.split(' ').map((label) => label.replaceAll('.', '_'))
    if (own.length > 0) expect([...seen].sort(), name).toEqual(documented.sort())
  }
  expect(JSON.stringify(found)).not.toContain('customer:')
})

/** What a calm run has none of. */
const RARE = new Set(['redlock.lease.splits', 'redlock.job.handoff.duration'])

function prometheusName(name: string, kind: string): string {
  const base = name.replaceAll('.', '_')
  if (kind === 'histogram') return `${base}_count`
  return kind === 'counter' ? `${base}_total` : base
}

test('an SDK that is registered after the Redlock was made is found', async () => {
  await served.close()
  openTelemetry({ resourceClass: (name) => name.slice(0, 3) })
  fixture.defer(() => {
    openTelemetry()
  })
  const redlock = new Redlock({
    masters: fixture.fleet.urls,
    namespace: fixture.namespace,
    maxLeaseMs: MAX_LEASE_MS,
    logger: silentLogger,
  })
  fixture.defer(() => redlock.close())
  await redlock.bootstrap({ newFleet: true })
  await (await granted(redlock, 'customer:1')).release()
  served = await openMetrics()
  const ofClass = { redlock_namespace: fixture.namespace, redlock_resource_class: 'cus' }
  await until('it is looked for again', async () => {
    await (await granted(redlock, 'customer:1')).release()
    return (await value('redlock_lease_hold_duration_count', ofClass)) > 0
  })
})

test('where another SDK is registered, it exports and the page says so', async () => {
  const second = await openMetrics()
  expect((await second.page()).status).toBe(501)
  const provider = metrics.getMeterProvider()
  await second.close()
  expect(metrics.getMeterProvider()).toBe(provider)
})
