/**
 * Takes snapshots of the servers for all viewers: one at a time, and none without a viewer. Streams
 * bring them what the page shows.
 */
import { instant, sleep, systemClock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { withFindings, withUngranted, type Diagnosis } from '../operator/diagnosis.ts'
import { fewAnswer, hasQuorum } from '../operator/fleet-probe.ts'
import { globEscape } from '../operator/glob.ts'
import {
  failedJobs,
  jobsWithId,
  type FoundJob,
  type JobRecord,
  type JobSince,
} from '../operator/jobs.ts'
import { checkLeases, type LiveLeases } from '../operator/live-leases.ts'
import type { LockView } from '../operator/lock-view.ts'
import {
  countJobs,
  FinishedCounter,
  type QueueCounts,
  type FinishedRates,
} from '../operator/queue-counts.ts'
import { waitingLines, type Inspect, type WaitingLines } from '../operator/lines.ts'
import type { QueueView } from '../operator/queue-view.ts'
import { standingJobs } from '../operator/standing-jobs.ts'
import { History, LeaseWatch, type Sample, type LeaseChanges } from './history.ts'
import { jsonWithOptions } from '../../shown-commands.ts'
import { messageOf } from '../../message-of.ts'
import { redacted } from '../../redact.ts'
import type { ResolvedOptions } from './options.ts'
import type { ServerResponse } from 'node:http'
import { text, type HttpAnswer, type RoutedRequest } from './answers.ts'
import type { DashboardState } from './state.ts'

interface SnapshotsOptions extends Pick<
  ResolvedOptions,
  'maxLeaseMs' | 'everyMs' | 'limit' | 'shown'
> {
  readonly locks: LockView
  /** The queue's Redis; without it no lines are shown. */
  readonly queue: QueueView | undefined
}

export interface Snapshot {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly diagnosis: Diagnosis
  readonly leases: LiveLeases
  readonly changes: LeaseChanges
  readonly lines: WaitingLines | Problem
  readonly queues: readonly QueueCounts[] | Problem
  /** Jobs that ended, a second. Empty at the first look, and where they are not known. */
  readonly rates: readonly FinishedRates[]
  /** The job that has waited longest; null where none waits. */
  readonly oldest: JobSince | null
  readonly failed: readonly JobRecord[]
  readonly history: readonly Sample[]
}

interface Problem {
  readonly problem: string
}

export interface SearchResult {
  readonly leases: LiveLeases
  readonly lines: Snapshot['lines']
  /** The jobs whose id is the text. */
  readonly jobs: readonly FoundJob[]
}

export const STREAM = { 'content-type': 'text/event-stream' }

const MAX_VIEWERS = 50
/** How long a browser waits before it connects again. */
const RETRY_MS = 2_000
const MAX_LINES = 20
const LINE_HEADS = 3
/** What a search returns where not all leases were looked at. */
const MAX_FOUND = 200

export class Snapshots {
  readonly #options: SnapshotsOptions
  readonly #watch = new LeaseWatch()
  readonly #history = new History()
  readonly #finished: FinishedCounter | undefined
  readonly #viewers = new Map<ServerResponse, (snapshot: Snapshot) => void>()
  #loop: AbortController | undefined
  #last: { readonly snapshot: Snapshot; readonly takenAt: number } | undefined
  #taking: Promise<Snapshot> | undefined
  #searches = new Map<string, Promise<SearchResult>>()

  constructor(options: SnapshotsOptions) {
    this.#options = options
    this.#finished = options.queue && new FinishedCounter(options.queue.places)
  }

  /**
   * Sends the state after every snapshot, as server-sent events, until the viewer leaves.
   * @returns undefined when the answer has been begun.
   */
  stream(
    { request, response }: RoutedRequest,
    stateOf: (snapshot: Snapshot) => Promise<DashboardState>,
  ): HttpAnswer | undefined {
    if (this.#viewers.size >= MAX_VIEWERS) {
      return text(503, `${MAX_VIEWERS} viewers are connected already.`, { 'retry-after': '10' })
    }
    request.socket.setTimeout(0) // It stays open.
    // Proxies that collect what passes would make news old.
    response.writeHead(200, { ...STREAM, 'x-accel-buffering': 'no' })
    response.write(`retry: ${RETRY_MS}\n\n`)
    const send = async (snapshot: Snapshot): Promise<void> => {
      const state = await stateOf(snapshot)
      const { writableNeedDrain, writableEnded, destroyed } = response
      // A viewer that reads slowly misses events.
      if (writableNeedDrain || writableEnded || destroyed) return
      response.write(`event: state\ndata: ${jsonWithOptions(state, this.#options.shown)}\n\n`)
    }
    const onSnapshot = (snapshot: Snapshot): void => {
      send(snapshot).catch(() => undefined) // The page says how old its last news are.
    }
    this.#viewers.set(response, onSnapshot)
    response.once('close', () => {
      this.#viewers.delete(response)
      if (this.#viewers.size > 0) return
      this.#loop?.abort()
      this.#loop = undefined
    })
    const fresh = this.#fresh()
    if (fresh !== undefined) onSnapshot(fresh)
    if (this.#loop === undefined) {
      this.#loop = new AbortController()
      void this.#run(this.#loop.signal, fresh !== undefined)
    }
    return undefined
  }

  /** The last snapshot while it is fresh, else a new one. */
  async latest(): Promise<Snapshot> {
    return this.#fresh() ?? this.#take()
  }

  /** Whose resource contains the text. Asks the servers only where the snapshot was cut off. */
  async search(snapshot: Snapshot, text: string): Promise<SearchResult> {
    const { leases, lines } = snapshot
    if (text === '') return { leases, lines, jobs: [] }
    return getOrInsert(this.#searches, text, () => this.#search(snapshot, text))
  }

  close(): void {
    this.#loop?.abort()
    for (const stream of this.#viewers.keys()) stream.end()
    this.#viewers.clear()
  }

  async #run(signal: AbortSignal, wait: boolean): Promise<void> {
    const { everyMs } = this.#options
    for (let pauseMs = wait ? everyMs : 0; ; pauseMs = everyMs) {
      await sleep(systemClock, pauseMs, signal).catch(() => undefined) // It ends with the signal.
      if (signal.aborted) return
      // A read that failed is no snapshot: viewers see that the last one grows old.
      const snapshot = await this.#take().catch(() => undefined)
      if (snapshot === undefined) continue
      for (const onSnapshot of this.#viewers.values()) onSnapshot(snapshot)
    }
  }

  #fresh(): Snapshot | undefined {
    const { everyMs } = this.#options
    // A viewer is never further behind than this either: the pause, and the read itself.
    const { snapshot, takenAt = -Infinity } = this.#last ?? {}
    return systemClock.now() - takenAt < 2 * everyMs ? snapshot : undefined
  }

  #take(): Promise<Snapshot> {
    this.#taking ??= this.#read().finally(() => {
      this.#taking = undefined
    })
    return this.#taking
  }

  async #read(): Promise<Snapshot> {
    const { locks, limit, maxLeaseMs, queue } = this.#options
    const places = queue?.places
    const [fleet, leases, queues = NO_QUEUE, rates = [], standing, failed = []] = await Promise.all(
      [
        locks.diagnose(queue?.server, maxLeaseMs),
        locks.leases({ limit }),
        places && countJobs(places).catch(problemOf),
        // Where the queue's Redis does not answer, its findings and its counts say so.
        this.#finished?.look().catch(nothing),
        places && standingJobs(places),
        places && failedJobs(places).catch(nothing),
      ],
    )
    const { findings = [], oldest = null } = standing ?? {}
    const diagnosis = withFindings(fleet, [...findings, ...checkLeases(leases)])
    const { now, wallNow: at } = instant(systemClock)
    const changes = this.#watch.seen(leases, now, at)
    const counts = 'problem' in queues || places?.missingNames !== undefined ? null : queues
    const history = this.#history.add(at, leases, changes, counts, rates)
    // A server that has just been silent is not asked again.
    const lines = 'problem' in queues ? queues : await this.#lines(leases, diagnosis, '')
    const ofJobs = { queues, rates, oldest, failed }
    const snapshot = { at, diagnosis, leases, changes, lines, history, ...ofJobs }
    this.#last = { snapshot, takenAt: systemClock.now() }
    this.#searches = new Map()
    return snapshot
  }

  async #search({ leases, diagnosis }: Snapshot, text: string): Promise<SearchResult> {
    const { locks, queue } = this.#options
    const match = `*${globEscape(text)}*`
    const found = leases.truncated
      ? await locks.leases({ match, limit: MAX_FOUND })
      : { ...leases, leases: leases.leases.filter(({ resource }) => resource.includes(text)) }
    const [lines, jobs = []] = await Promise.all([
      this.#lines(leases, diagnosis, text),
      queue && jobsWithId(queue, text, locks.resource).catch(nothing),
    ])
    return { leases: found, lines, jobs }
  }

  async #lines(leases: LiveLeases, diagnosis: Diagnosis, text: string): Promise<Snapshot['lines']> {
    const { queue, locks } = this.#options
    if (queue === undefined) return NO_QUEUE
    const search = { text, limit: MAX_LINES, heads: LINE_HEADS }
    const inspect = holders(leases, locks)
    return waitingLines(queue.places, search, async (resource) =>
      withUngranted(await inspect(resource), diagnosis),
    ).catch(problemOf)
  }
}

const nothing = (): readonly never[] => []

/** Why nothing is known of queues and jobs, and what to do. */
export const NO_QUEUE: Problem = {
  problem: 'Name the queue’s Redis (--queue-redis, queueRedis).',
}

export function problemOf(error: unknown): Problem {
  return { problem: `The queue’s Redis says: ${redacted(messageOf(error))}` }
}

const PART_HAS_A_KEY =
  'fewer than a quorum of the masters have a key, and others do not answer or may have forgotten it'

/** Who holds what, from the snapshot that was just taken; asks only where that was cut off. */
function holders(found: LiveLeases, locks: LockView): Inspect {
  const leases = new Map(
    found.leases.flatMap((lease) => (lease.state === 'leftover' ? [] : [[lease.resource, lease]])),
  )
  return async (resource) => {
    const lease = leases.get(resource)
    if (lease === undefined && found.truncated) return locks.resource(resource)
    const free = { resource, masters: [] }
    if (lease?.state === 'unknown') return { ...free, unknown: PART_HAS_A_KEY }
    if (lease === undefined && !hasQuorum(found)) return { ...free, unknown: fewAnswer(found) }
    if (lease?.fencingToken === undefined) return free
    const { holder: name, fencingToken, freeInMs } = lease
    return { ...free, holder: { name, fencingToken, freeInMs } }
  }
}
