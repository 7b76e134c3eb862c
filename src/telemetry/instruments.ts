/**
 * Every metric of this package: name, unit, and what it says. docs/telemetry.md lists them with
 * their labels. What is counted often is added up here and read at a scrape; only durations are
 * recorded as they happen.
 */
import type { Attributes, Counter, Histogram, Meter, Observable } from '@opentelemetry/api'
import { added } from '../added.ts'
import type { Facts, LineCensus, MasterStatus, ToldLock, ToldWorker } from '../facts.ts'
import { getOrInsert } from '../get-or-insert.ts'

/** By kind: the unit of each, and what it says. Histograms are all of seconds. */
const KINDS = {
  histogram: {
    'redlock.lease.acquire.duration': 'One attempt to acquire a lease, by its outcome',
    'redlock.lease.wait.duration': 'A whole acquire(), until it was granted or gave up',
    'redlock.lease.hold.duration': 'How long a lease was held, by how it ended',
    'redlock.job.wait.duration': 'From when a job could first have run until its first lease',
    'redlock.job.handoff.duration':
      'From the end of a job until its worker has the lease of the next',
  },
  counter: {
    'redlock.lease.extensions': ['{extension}', 'Attempts to extend a lease, by their outcome'],
    'redlock.lease.losses': [
      '{lease}',
      'Leases that were lost before their release, by the reason',
    ],
    'redlock.lease.splits': ['{attempt}', 'Attempts in which no client won a quorum'],
    'redlock.job.requeues': [
      '{requeue}',
      'Jobs requeued because they could not run yet, by the reason',
    ],
    'redlock.job.ends': ['{job}', 'Jobs that completed, failed for good, or will be retried'],
    'redlock.job.batches': ['{batch}', 'Batches of jobs that began to run'],
  },
  'observed counter': {
    'redlock.master.votes': ['{vote}', 'Answers of the masters, by question and outcome'],
    'redlock.line.refused': ['{job}', 'Jobs that were not added because their line was full'],
    'redlock.line.dropped': ['{job}', 'Jobs that a full line dropped for new ones'],
  },
  gauge: {
    'redlock.lease.active': ['{lease}', 'Leases that this process holds now'],
    'redlock.master.state': [
      '1',
      '1 for the state of a master or the lock service, 0 for the others',
    ],
    'redlock.master.clock_offset': [
      's',
      "The master's clock minus this machine's when it was last enrolled",
    ],
    'redlock.quorum.margin': [
      '{master}',
      'How many more masters than a quorum vote, 0 for a lock service; below 0 no lease is granted',
    ],
    'redlock.job.runnable': ['{job}', 'Jobs that run or could start at once: scale on this'],
    'redlock.job.parked': ['{job}', 'Jobs that sleep until it is their turn, in up to 1,000 lines'],
    'redlock.job.oldest': ['s', 'How long the oldest waiting job has waited; 0 where none waits'],
    'redlock.line.active': ['{line}', 'Resources with a line of jobs'],
    'redlock.line.longest': ['{job}', 'Jobs that sleep in the longest line'],
    'redlock.line.limited': ['{resource}', 'Resources that are paused, asleep or limited'],
    'redlock.line.tenants': ['{tenant}', 'Tenants whose jobs wait for their turn'],
    'redlock.worker.breaker.open': [
      '1',
      '1 while a worker fetches no jobs because no lease can be granted',
    ],
  },
} as const

type Instrument = keyof typeof KINDS
type NameOf<K extends Instrument> = K extends Instrument ? keyof (typeof KINDS)[K] : never

interface Metric {
  readonly kind: Instrument
  readonly name: NameOf<Instrument>
  readonly options: { readonly unit: string; readonly description: string }
}

export const METRICS: readonly Metric[] = Object.entries(KINDS).flatMap(([kind, metrics]) =>
  Object.entries<string | readonly [string, string]>(metrics).map(([name, told]) => {
    const [unit, description] = typeof told === 'string' ? ['s', told] : told
    return {
      ...{ kind: kind as Instrument, name: name as NameOf<Instrument> },
      options: { unit, description },
    }
  }),
)

/** From a fast local vote to a long wait in a line. */
const SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900,
]

const MASTER_STATES: readonly MasterStatus['state'][] = [
  ...(['voting', 'quarantined', 'suspended', 'connecting', 'enrolling', 'refused'] as const),
  'closed',
]

/** What is open now, and is asked at each scrape. */
export interface Sources {
  readonly locks: ReadonlySet<ToldLock>
  readonly workers: ReadonlySet<ToldWorker>
}

/** How often a master gave an answer. */
interface Tally {
  readonly by: Attributes
  count: number
}

type Observed = [name: NameOf<'gauge' | 'observed counter'>, value: number, by: Attributes]
type Observe = (...observed: Observed) => void

export class Instruments {
  readonly #sources: Sources
  readonly #histograms = new Map<string, Histogram>()
  readonly #counters = new Map<string, Counter>()
  /** What was reported once, as it is when all that it is about has closed. */
  readonly #closed = new Map<string, Observed>()
  /** Whose lines were reported. */
  readonly #queues = new Set<string>()
  readonly #tallies = new Map<string, Tally>()

  constructor(meter: Meter, sources: Sources) {
    this.#sources = sources
    const observables = new Map<string, Observable>()
    for (const { kind, name, options } of METRICS) {
      if (kind === 'histogram') {
        const advice = { explicitBucketBoundaries: SECONDS }
        this.#histograms.set(name, meter.createHistogram(name, { ...options, advice }))
      } else if (kind === 'counter') this.#counters.set(name, meter.createCounter(name, options))
      else if (kind === 'gauge') observables.set(name, meter.createObservableGauge(name, options))
      else observables.set(name, meter.createObservableCounter(name, options))
    }
    meter.addBatchObservableCallback(
      async (result) => {
        await this.#observe((name, value, by) => {
          const observable = observables.get(name)
          if (observable !== undefined) result.observe(observable, value, by)
        })
      },
      [...observables.values()],
    )
  }

  record(name: NameOf<'histogram'>, durationMs: number, by: Attributes): void {
    this.#histograms.get(name)?.record(durationMs / 1_000, by)
  }

  count(name: NameOf<'counter'>, by: Attributes): void {
    this.#counters.get(name)?.add(1, by)
  }

  /** A master's answer, which is read at a scrape. */
  voted(namespace: string, { master, question, outcome }: Facts['master:voted']): void {
    const key = `${namespace} ${master} ${question} ${outcome}`
    const tally = getOrInsert(this.#tallies, key, () => {
      const ofMaster = { 'redlock.namespace': namespace, 'redlock.master': master }
      const by = { ...ofMaster, 'redlock.question': question, 'redlock.outcome': outcome }
      return { by, count: 0 }
    })
    tally.count++
  }

  async #observe(observe: Observe): Promise<void> {
    // What was reported once is reported on, because an SDK keeps the last value of what is not.
    const all = new Map(this.#closed)
    const tell = ([name, value, by]: Observed, closed = 0): void => {
      const key = JSON.stringify([name, by])
      this.#closed.set(key, [name, closed, by])
      all.set(key, [name, value, by])
    }
    const active = new Map<string, number>()
    for (const lock of this.#sources.locks) {
      const { namespace, quorum } = lock
      const { masters, leases } = lock.status()
      const held = (active.get(namespace) ?? 0) + leases
      active.set(namespace, held)
      const ofLock = { 'redlock.namespace': namespace }
      tell(['redlock.lease.active', held, ofLock])
      const voting = masters.filter(({ state }) => state === 'voting').length
      tell(['redlock.quorum.margin', voting - quorum, ofLock], -quorum)
      for (const { name, state, clockOffsetMs } of masters) {
        const by = { ...ofLock, 'redlock.master': name }
        if (clockOffsetMs !== undefined) {
          observe('redlock.master.clock_offset', clockOffsetMs / 1_000, by)
        }
        for (const each of MASTER_STATES) {
          const ofState = { ...by, 'redlock.master.state': each }
          const isClosed = each === 'closed' ? 1 : 0
          tell(['redlock.master.state', each === state ? 1 : 0, ofState], isClosed)
        }
      }
    }
    const open = new Set<string>()
    for (const worker of this.#sources.workers) {
      if (worker.breakerOpen()) open.add(worker.queue)
      const isOpen = open.has(worker.queue) ? 1 : 0
      tell(['redlock.worker.breaker.open', isOpen, ofQueue(worker.queue)])
    }
    for (const each of all.values()) observe(...each)
    for (const { by, count } of this.#tallies.values()) observe('redlock.master.votes', count, by)
    const asked = censuses(this.#sources.workers)
    for (const queue of this.#queues) {
      if (!asked.has(queue)) observeNoLines(queue, observe)
    }
    for (const queue of asked.keys()) this.#queues.add(queue)
    await Promise.all([...asked].map(([queue, all]) => observeLines(queue, all, observe)))
  }
}

/** The queue of a metric or a span. */
export function ofQueue(queue: string): Attributes {
  return { 'messaging.destination.name': queue }
}

type OfLines = Partial<Record<NameOf<'gauge' | 'observed counter'>, (lines: LineCensus) => number>>

type CensusOf = NonNullable<ToldWorker['census']>

/** Of one worker of each queue, because they all see the same lines. Shards have one name. */
function censuses(
  workers: Iterable<ToldWorker>,
): ReadonlyMap<string, ReadonlyMap<string, CensusOf>> {
  const byName = new Map<string, Map<string, CensusOf>>()
  for (const { queue, prefix, census } of workers) {
    if (census !== undefined) getOrInsert(byName, queue, () => new Map()).set(prefix, census)
  }
  return byName
}

/** They keep their value when the last worker has closed; gauges do not. */
const LINE_COUNTERS = {
  'redlock.line.refused': ({ refused }) => refused,
  'redlock.line.dropped': ({ dropped }) => dropped,
} satisfies OfLines

const LINE_GAUGES = {
  'redlock.job.parked': ({ parked }) => parked,
  'redlock.job.runnable': ({ runnable }) => runnable,
  'redlock.job.oldest': ({ oldestMs }) => oldestMs / 1_000,
  'redlock.line.active': ({ lines }) => lines,
  'redlock.line.longest': ({ longest }) => longest,
  'redlock.line.limited': ({ limited }) => limited,
  'redlock.line.tenants': ({ tenants }) => tenants,
} satisfies OfLines

function observeNoLines(queue: string, observe: Observe): void {
  for (const name of Object.keys(LINE_GAUGES)) {
    observe(name as keyof OfLines, 0, ofQueue(queue))
  }
}

async function observeLines(
  queue: string,
  asked: ReadonlyMap<string, CensusOf>,
  observe: Observe,
): Promise<void> {
  const answers = await Promise.all([...asked.values()].map((census) => census()))
  const parts = answers.filter((each) => each !== undefined)
  // A part of a queue is not the queue.
  if (parts.length < asked.size) return
  const longest = Math.max(...parts.map((part) => part.longest))
  const oldestMs = Math.max(...parts.map((part) => part.oldestMs))
  const found = { ...added(parts), longest, oldestMs }
  for (const [name, valueOf] of Object.entries({ ...LINE_GAUGES, ...LINE_COUNTERS })) {
    observe(name as keyof OfLines, valueOf(found), ofQueue(queue))
  }
}
