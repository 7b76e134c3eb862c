/**
 * Reports jobs and their worker to OpenTelemetry. Spans belong to the trace that BullMQ's own
 * `telemetry` has begun for the job; where the worker has none, to the trace of the job's producer,
 * which BullMQ carries in the job's options.
 */
import {
  context,
  propagation,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
} from '@opentelemetry/api'
import { activities } from './activity.ts'
import type { Instruments } from './instruments.ts'
import { Reporter } from './listeners.ts'
import { spanned } from './spans.ts'
import type { WorkerSource } from './worker-source.ts'
import { messageOf } from '../message-of.ts'

/** As much of a BullMQ job as is reported. */
export interface ReportedJob {
  readonly id?: string | undefined
  readonly queueName: string
  readonly opts: { readonly telemetry?: { readonly metadata?: string } }
}

export class JobTelemetry extends Reporter {
  #source: WorkerSource | undefined

  /** From now on the worker is asked at each scrape. */
  opened(source: WorkerSource): void {
    this.#source = source
    const instruments = this.instruments()
    if (instruments !== undefined) this.join(instruments)
  }

  closed(): void {
    const source = this.#source
    if (source === undefined) return
    this.#source = undefined
    for (const instruments of this.joined) instruments.workers.delete(source)
  }

  /** Runs what belongs to a job in the job's trace. */
  within<Result>(job: ReportedJob, run: () => Result): Result {
    const carried = job.opts.telemetry?.metadata
    if (carried === undefined || this.tracer() === undefined) return run()
    if (trace.getActiveSpan() !== undefined) return run()
    return context.with(producersContext(carried), run)
  }

  waited(job: ReportedJob, waitMs: number): void {
    this.instruments()?.record('redlock.job.wait.duration', Math.max(0, waitMs), ofQueue(job))
  }

  handedOff(job: ReportedJob, tookMs: number): void {
    this.instruments()?.record('redlock.job.handoff.duration', tookMs, ofQueue(job))
  }

  batched(job: ReportedJob): void {
    this.instruments()?.count('redlock.job.batches', ofQueue(job))
  }

  ended(queueName: string, outcome: 'completed' | 'failed' | 'retried'): void {
    const by = { ...ofQueue({ queueName }), 'redlock.outcome': outcome }
    this.instruments()?.count('redlock.job.ends', by)
  }

  requeued(job: ReportedJob, reason: string, delayMs: number, tookMs: number): void {
    activities.publish({ kind: 'requeued', namespace: this.#source?.namespace, reason })
    const by = { ...ofQueue(job), 'redlock.reason': reason }
    this.instruments()?.count('redlock.job.requeues', by)
    const attributes = { ...by, ...ofJob(job), 'redlock.delay': delayMs / 1_000 }
    spanned(this.tracer(), 'redlock.requeue', tookMs, attributes)
  }

  /** Runs a step as a span, under which come the spans of whatever the step does. */
  step<Result>(
    job: ReportedJob,
    name: string,
    fencingToken: number,
    run: () => Promise<Result>,
  ): Promise<Result> {
    const what = { fencingToken, step: name }
    activities.publish({ kind: 'step', namespace: this.#source?.namespace, ...what })
    const tracer = this.tracer()
    if (tracer === undefined) return run()
    const own = { 'redlock.step': name, 'redlock.fencing_token': fencingToken }
    const attributes = { ...ofQueue(job), ...ofJob(job), ...own }
    const span = tracer.startSpan('redlock.step', { attributes })
    const running = context.with(trace.setSpan(context.active(), span), run)
    running.then(
      () => {
        span.end()
      },
      (error: unknown) => {
        const message = messageOf(error)
        span.recordException(error instanceof Error ? error : message)
        span.setStatus({ code: SpanStatusCode.ERROR, message })
        span.end()
      },
    )
    return running
  }

  protected join(instruments: Instruments): void {
    if (this.#source !== undefined) instruments.workers.add(this.#source)
  }
}

function ofQueue({ queueName }: Pick<ReportedJob, 'queueName'>): Attributes {
  return { 'messaging.destination.name': queueName }
}

function ofJob({ id }: ReportedJob): Attributes {
  return { 'messaging.message.id': id ?? '' }
}

/** BullMQ carries what a propagator has written, as JSON. */
function producersContext(carried: string): Context {
  try {
    return propagation.extract(ROOT_CONTEXT, JSON.parse(carried))
  } catch {
    return context.active() // Written by a telemetry that is not OpenTelemetry's.
  }
}
