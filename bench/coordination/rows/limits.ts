/** Limits of a resource while jobs run: a rate, slots, lines that are closed, and shares. */
import { setTimeout as delay } from 'node:timers/promises'
import type { LockedQueue as Queue } from '../../../src/index.ts'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { LockedQueue } from '../../built.ts'
import { figure, none, type Figure } from '../../report.ts'
import { sum, takeTurns, type Effort } from '../../rounds.ts'
import { newQueueName, type Harness, type Row } from '../harness.ts'
import { resource, tenantOf, type KeyedJob, type Run } from '../job.ts'

const KEEP_EVENTS = 1_000_000

function openQueue(harness: Harness, name: string): Queue<KeyedJob> {
  const { connection } = harness.orders('strict', name, 1)
  const streams = { events: { maxLen: KEEP_EVENTS } }
  return new LockedQueue<KeyedJob>(name, { connection, streams, resource })
}

const jobs = (key: string, count: number, workMs: number) =>
  Array.from({ length: count }, (_, nr) => ({ name: 'job', data: { key, nr, workMs } }))

const LIMIT = 100
const BURST = 10

/** The most jobs by which starts were above the rate, in any time; at most 0 if they were not. */
function excess(starts: readonly number[]): number {
  const interval = 1_000 / LIMIT
  let due = -Infinity
  let worst = -Infinity
  for (const at of starts.toSorted((a, b) => a - b)) {
    due = Math.max(due, at) + interval
    worst = Math.max(worst, (due - at) / interval - BURST)
  }
  return worst
}

export const rate: Row = {
  name: 'rate',
  load: `one line with ${LIMIT} starts a second and a burst of ${BURST}, empty jobs, 3 processes`,
  async run(harness, effort) {
    const count = BURST + LIMIT * effort.of(30, 3)
    const [name, key] = [newQueueName(), newQueueName()]
    const queue = openQueue(harness, name)
    await queue.setRate(key, { limit: LIMIT, perMs: 1_000, burst: BURST })
    await queue.addBulk(jobs(key, count, 0))
    await harness.workers.work(harness.orders('strict', name, 25), 3)
    await harness.workers.completed(count)
    const { runs } = await harness.workers.stop()
    // When the server gave a job to a worker, by its clock.
    const events = await harness.queueRedis.xrange(`bull:${name}:events`, '-', '+')
    const granted = events
      .filter(([, fields]) => fields[fields.indexOf('event') + 1] === 'active')
      .map(([id]) => Number(id.split('-')[0]))
    await queue.close()
    await harness.queueRedis.flushall()
    const tookS = (Math.max(...granted) - Math.min(...granted)) / 1_000
    // The server counts in parts of a millisecond, and its events say whole ones.
    const above = Math.max(0, Math.floor(excess(granted) - 0.1))
    const used = count / (BURST + LIMIT * tookS)
    const started = excess(runs.map(({ startedAt }) => startedAt))
    return {
      figures: [
        none('jobs above the rate, when given out', above),
        figure('… as their processors start', started, ''),
        figure('of the rate used', used, 'x', { atLeast: 0.97 }),
      ],
    }
  },
}

const SLOT_WORK_MS = 50
const STEPS = [4, 1, 8]
const STEP_MS = 3_000

export const liveSlots: Row = {
  name: 'live-slots',
  load: `one line, slots ${STEPS.join(' → ')} every ${STEP_MS} ms, ${SLOT_WORK_MS} ms jobs, 4 × 25`,
  async run(harness, effort) {
    const stepMs = effort.of(STEP_MS, STEP_MS / 2)
    const [name, key] = [newQueueName(), newQueueName()]
    const queue = openQueue(harness, name)
    await queue.setSlots(key, STEPS[0] ?? 1)
    const count = Math.ceil((stepMs / SLOT_WORK_MS) * sum(STEPS))
    await queue.addBulk(jobs(key, count, SLOT_WORK_MS))
    await harness.workers.work(harness.orders('strict', name, 25))
    const changes: { readonly slots: number; readonly at: number; readonly given: number[] }[] = []
    for (const slots of STEPS) {
      await queue.setSlots(key, slots)
      const at = monotonicMs()
      // They may start a moment later.
      const given = (await queue.getActive()).map(({ data }) => data.nr)
      changes.push({ slots, at, given })
      await delay(stepMs)
    }
    await queue.setSlots(key, 25)
    const endedAt = monotonicMs()
    await harness.workers.completed(count)
    const { runs } = await harness.workers.stop()
    await queue.close()
    await harness.queueRedis.flushall()
    let above = 0
    let fullAfterMs = Infinity
    for (const [index, { slots, at, given }] of changes.entries()) {
      const until = changes[index + 1]?.at ?? endedAt
      // Those that had been given out when it was lowered are counted out.
      const before = runsAt(runs, at)
      const ran = runs.filter((run) => before.includes(run) || given.includes(run.nr))
      const later = runs.filter((run) => !ran.includes(run))
      for (const { startedAt } of later) {
        if (startedAt <= at || startedAt >= until) continue
        const beside = runsAt(later, startedAt).length
        const stillRunning = ran.filter((run) => run.endedAt > startedAt).length
        const most = Math.max(slots, stillRunning)
        above = Math.max(above, beside - slots, beside + stillRunning - most)
      }
      const isFull = ({ startedAt }: Run): boolean =>
        startedAt > at && runsAt(runs, startedAt).length >= slots
      fullAfterMs = (runs.find(isFull)?.startedAt ?? Infinity) - at
    }
    const last = `slots ${STEPS.at(-1) ?? 0}: full after`
    return {
      figures: [
        none('jobs above the slots in force', above),
        figure(last, fullAfterMs, 'ms', { atMost: 1_000 }),
      ],
    }
  },
}

/** The runs that go on at a moment, with the one that starts then. */
function runsAt(runs: readonly Run[], at: number): readonly Run[] {
  return runs.filter(({ startedAt, endedAt }) => startedAt <= at && endedAt > at)
}

const CLOSED_LINES = 1_000
const BUSY_JOBS = 10_000

export const besideClosedLines: Row = {
  name: 'closed-lines',
  load: `${CLOSED_LINES} paused or limited lines beside busy ones, ${BUSY_JOBS} jobs, 4 × 25`,
  async run(harness, effort) {
    const [closed, count] = effort.of([CLOSED_LINES, BUSY_JOBS], [50, 200])
    const figures: Figure[] = []
    for (const busy of [1, 100]) {
      const places = ['alone', 'beside'] as const
      const rounds = await takeTurns(places, { rounds: effort.rounds }, (where) =>
        speedOf(harness, where === 'beside' ? closed : 0, busy, count),
      )
      const ratio = rounds.ratio('beside', 'alone', 'perMs')
      const name = `${busy} busy: throughput beside them, of alone`
      figures.push(figure(name, ratio, 'x', { atLeast: 0.95 }))
    }
    return { figures }
  },
}

/** Every second closed line has a rate that its first job uses up; the others are paused. */
async function speedOf(harness: Harness, closed: number, busy: number, count: number) {
  const name = newQueueName()
  const queue = openQueue(harness, name)
  const limited = Array.from({ length: closed / 2 }, (_, index) => `${name}-limited-${index}`)
  const paused = limited.map((key) => `${key}-paused`)
  await Promise.all(limited.map((key) => queue.setRate(key, { limit: 1, perMs: 3_600_000 })))
  await Promise.all(paused.map((key) => queue.pauseResource(key)))
  for (const key of [...limited, ...paused]) await queue.addBulk(jobs(key, 3, 0))
  await harness.workers.work(harness.orders('strict', name, 25))
  await harness.workers.completed(limited.length)
  await queue.pause()
  for (let line = 0; line < busy; line++) {
    await queue.addBulk(jobs(`${name}-${line}`, count / busy, 0))
  }
  const startedAt = monotonicMs()
  await queue.resume()
  await harness.workers.completed(limited.length + count)
  const tookMs = monotonicMs() - startedAt
  await harness.workers.stop()
  await harness.queueRedis.flushall()
  await queue.close()
  return { perMs: count / tookMs }
}

/** What tenants and weights do to the work that is done. */
const SHARE_WORK_MS = 5

interface Tenant {
  readonly name: string
  readonly lines: number
  readonly weight: number
}

/** Works on one slot while all tenants have jobs. How far is a share from what its weight says? */
async function offBy(harness: Harness, totalMs: number, tenants: readonly Tenant[]) {
  const queue = newQueueName()
  const weights = sum(tenants.map(({ weight }) => weight))
  // One tenant might be served alone: each has jobs for nearly the whole time.
  const jobs = tenants.flatMap(({ name, lines, weight }) =>
    Array.from({ length: Math.ceil(totalMs / SHARE_WORK_MS) }, (_, index): KeyedJob => {
      const key = `${queue}-tenant:${name}-weight:${weight}-${index % lines}`
      return { key, nr: Math.floor(index / lines), workMs: SHARE_WORK_MS }
    }),
  )
  await harness.add('tenants', queue, jobs)
  await harness.workers.work(harness.orders('tenants', queue, 1), 1)
  await harness.workers.completed(Math.floor((totalMs / SHARE_WORK_MS) * (weights > 2 ? 0.9 : 0.8)))
  const { runs } = await harness.workers.stop()
  await harness.clear('tenants', queue)
  const works = tenants.map(({ name }) => {
    const own = runs.filter((run) => tenantOf(run) === name)
    return sum(own.map(({ startedAt, endedAt }) => endedAt - startedAt))
  })
  const off = tenants.map(({ weight }, index) =>
    Math.abs(((works[index] ?? 0) / sum(works)) * (weights / weight) - 1),
  )
  return Math.max(...off) * 100
}

async function worst(harness: Harness, effort: Effort, tenants: readonly Tenant[]) {
  const totalMs = effort.of(21_000, 1_500)
  const off: number[] = []
  while (off.length < effort.rounds) off.push(await offBy(harness, totalMs, tenants))
  return { figures: [figure('a share is off by, at most', Math.max(...off), '%', { atMost: 5 })] }
}

export const weights: Row = {
  name: 'weights',
  load: `3 full lines with weights 1:2:4, ${SHARE_WORK_MS} ms jobs, 1 slot`,
  run(harness, effort) {
    const lines = [1, 2, 4].map((weight) => ({ name: `w${weight}`, lines: 1, weight }))
    return worst(harness, effort, lines)
  },
}

export const tenants: Row = {
  name: 'tenants',
  load: `a tenant with 50 full lines beside one with 1, ${SHARE_WORK_MS} ms jobs, 1 slot`,
  run(harness, effort) {
    const both = [50, 1].map((lines) => ({ name: `of${lines}`, lines, weight: 1 }))
    return worst(harness, effort, both)
  },
}
