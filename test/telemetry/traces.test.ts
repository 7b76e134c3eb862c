/**
 * Spans of jobs are in the trace of whoever added the job, with BullMQ's own telemetry on the
 * worker and without.
 */
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base'
import { BullMQOtel } from 'bullmq-otel'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { LockedWorkerOptions } from '../../src/index.ts'
import { SPANS } from '../../src/telemetry/sdk.ts'
import { granted, until, useFleet } from '../fixtures.ts'
import { rowsOf } from './doc-tables.ts'

const fixture = useFleet({ masters: 5 })
const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const tracer = provider.getTracer('test')

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  trace.setGlobalTracerProvider(provider)
})
afterEach(() => {
  exporter.reset()
})
afterAll(async () => {
  trace.disable()
  propagation.disable()
  context.disable()
  await provider.shutdown()
})

/**
 * Adds one job within a span and waits for the spans of its run; its resource is held by another
 * for a while.
 */
async function traced(
  options: Partial<LockedWorkerOptions>,
): Promise<{ readonly producer: ReadableSpan; readonly spans: readonly ReadableSpan[] }> {
  const redlock = await fixture.redlock()
  const resource = (): string => 'customer:42'
  const telemetry = new BullMQOtel({ tracerName: 'shop' })
  const queue = fixture.lockedQueue({ resource, telemetry })
  const worker = fixture.lockedWorker(
    async (_job, lease) => {
      await lease.step('charge', async () => {
        await lease.extend()
        tracer.startSpan('card payment').end()
      })
    },
    { redlock, resource, ...options },
  )
  const held = await granted(redlock, 'customer:42')
  const requeued = new Promise((resolve) => worker.once('requeued', resolve))
  const done = new Promise((resolve) => worker.once('completed', resolve))
  await tracer.startActiveSpan('checkout', async (span) => {
    await queue.add('charge', {}, { jobId: 'seven' })
    span.end()
  })
  await requeued
  await held.release()
  await done
  const finished = (): readonly ReadableSpan[] => exporter.getFinishedSpans()
  const producer = finished().find(({ name }) => name === 'checkout')
  if (producer === undefined) throw new Error('no span of the producer')
  const { traceId } = producer.spanContext()
  const ofJob = (): readonly ReadableSpan[] =>
    finished().filter((span) => span.spanContext().traceId === traceId)
  await until('the lease is released', () => ofJob().some(({ name }) => name === 'redlock.release'))
  return { producer, spans: ofJob() }
}

const named = (spans: readonly ReadableSpan[], name: string): ReadableSpan => {
  const span = spans.find((each) => each.name === name)
  if (span === undefined) throw new Error(`no span ${name}: ${spans.map((s) => s.name).join()}`)
  return span
}

test("without BullMQ's telemetry on the worker: every span joins the producer's trace", async () => {
  const { spans } = await traced({})
  for (const name of Object.keys(SPANS)) named(spans, name)
  const step = named(spans, 'redlock.step')
  const requeue = named(spans, 'redlock.requeue')
  expect(step.attributes).toMatchObject({
    'redlock.step': 'charge',
    'messaging.message.id': 'seven',
  })
  expect(requeue.attributes).toMatchObject({ 'redlock.reason': 'taken' })
  const outcomes = spans
    .filter(({ name }) => name === 'redlock.acquire')
    .map(({ attributes }) => attributes['redlock.outcome'])
  expect(outcomes[0]).toBe('taken')
  expect(outcomes.at(-1)).toBe('granted')
  expect(named(spans, 'card payment').parentSpanContext?.spanId).toBe(step.spanContext().spanId)
  const extend = named(spans, 'redlock.extend')
  expect(extend.parentSpanContext?.spanId).toBe(step.spanContext().spanId)
})

test("beside BullMQ's telemetry on the worker: under its span of the same trace", async () => {
  const { producer, spans } = await traced({ telemetry: new BullMQOtel({ tracerName: 'shop' }) })
  const runs = (): readonly ReadableSpan[] =>
    exporter.getFinishedSpans().filter(({ name }) => name.startsWith('process '))
  await until('the requeued run and the one that did the work have ended', () => runs().length >= 2)
  const processing = runs()
  const traceIds = new Set(processing.map((span) => span.spanContext().traceId))
  expect([...traceIds]).toEqual([producer.spanContext().traceId])
  const ids = new Set(processing.map((span) => span.spanContext().spanId))
  for (const name of ['redlock.acquire', 'redlock.step', 'redlock.release', 'redlock.requeue']) {
    expect(ids).toContain(named(spans, name).parentSpanContext?.spanId)
  }
})

test('attributes are those that are documented, and no resource is among them', async () => {
  const { spans } = await traced({})
  for (const [name, attributes] of rowsOf('telemetry.md', 'Spans')) {
    const own = spans.filter((span) => span.name === name)
    const found = new Set(own.flatMap((span) => Object.keys(span.attributes)))
    expect([...found].sort(), name).toEqual(attributes?.replace(' (seconds)', '').split(' ').sort())
    expect(JSON.stringify(own.map((span) => span.attributes))).not.toContain('customer:42')
  }
})

test('a span lasts as long as its operation', async () => {
  const { spans } = await traced({})
  const acquire = named(spans, 'redlock.acquire')
  const [seconds, nanoseconds] = acquire.duration
  const durationMs = seconds * 1_000 + nanoseconds / 1e6
  expect(durationMs).toBeGreaterThan(0.05)
  expect(durationMs).toBeLessThan(2_000)
})

test('a step that throws is an error in its trace, and the error is the same', async () => {
  const redlock = await fixture.redlock()
  const resource = (): string => 'customer:1'
  const queue = fixture.lockedQueue({ resource })
  const worker = fixture.lockedWorker(
    (_job, lease) =>
      lease.step('charge', () => {
        throw new Error('card declined')
      }),
    { redlock, resource },
  )
  const failed = new Promise<Error>((resolve) =>
    worker.once('failed', (_job, error) => {
      resolve(error)
    }),
  )
  await queue.add('charge', {})
  expect((await failed).message).toBe('card declined')
  const { status } = named(exporter.getFinishedSpans(), 'redlock.step')
  expect(status).toEqual({ code: 2, message: 'card declined' })
})
