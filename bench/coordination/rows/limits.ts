/** Limits of a resource while jobs run: a rate, slots, and lines that are closed. */
import { setTimeout as delay } from 'node:timers/promises'
import type { LockedQueue as Queue } from '../../../src/index.ts'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { takeTurns } from '../../rounds.ts'
import { LockedQueue } from '../../built.ts'
import { newQueueName, type Harness } from '../harness.ts'
import type { KeyedJob, Run } from '../job.ts'
import { none, reference, speed, type Row } from '../row.ts'

const KEEP_EVENTS = 1_000_000

function openQueue(harness: Harness, name: string): Queue<KeyedJob> {
  const { connection } = harness.orders('strict', name, 1)
  return new LockedQueue<KeyedJob>(name, {
    ...{ connection, streams: { events: { maxLen: KEEP_EVENTS } } },
    resource: ({ key }) => key,
  })
}

const jobs = (key: string, count: number, workMs: number): { name: string; data: KeyedJob }[] =>
  Array.from({ length: count }, (_, nr) => ({ name: 'job', data: { key, nr, workMs } }))

const LIMIT = 100
const BURST = 10

/** When the server gave a job to a worker, by its clock. */
async function grants(harness: Harness, queue: string): Promise<readonly number[]> {
  const events = await harness.queueRedis.xrange(`bull:${queue}:events`, '-', '+')
  return events
    .filter(([, fields]) => fields[fields.indexOf('event') + 1] === 'active')
    .map(([id]) => Number(id.split('-')[0]))
}

/** The most jobs by which starts were above a rate, in any time; at most 0 where they were not. */
function excess(starts: readonly number[], limit: number, burst: number): number {
  const interval = 1_000 / limit
  let due = -Infinity
  let worst = -Infinity
  for (const at of starts.toSorted((a, b) => a - b)) {
    due = Math.max(due, at) + interval
    worst = Math.max(worst, (due - at) / interval - burst)
  }
  return worst
}

export const rate: Row = {
  name: 'rate',
  load: `one line with ${LIMIT} starts a second and a burst of ${BURST}, empty jobs, 3 processes`,
  async run(harness, { smoke }) {
    const seconds = smoke ? 3 : 30
    const count = BURST + LIMIT * seconds
    const name = newQueueName()
    const key = newQueueName()
    const queue = openQueue(harness, name)
    await queue.setRate(key, { limit: LIMIT, perMs: 1_000, burst: BURST })
    await queue.addBulk(jobs(key, count, 0))
    await harness.processes.work(harness.orders('strict', name, 25), 3)
    await harness.processes.completed(count)
    const { runs, wasted } = await harness.processes.stop()
    const granted = await grants(harness, name)
    await queue.close()
    await harness.queueRedis.flushall()
    const tookS = (Math.max(...granted) - Math.min(...granted)) / 1_000
    // The server counts in parts of a millisecond, and its events say whole ones.
    const above = excess(granted, LIMIT, BURST)
    const starts = runs.map(({ startedAt }) => startedAt)
    return [
      none('jobs above the rate, when given out', Math.max(0, Math.floor(above - 0.1))),
      reference('the most above it, in jobs', above),
      reference('… as their processors start', excess(starts, LIMIT, BURST)),
      speed('of the rate used', count / (BURST + LIMIT * tookS), 'x', { must: { atLeast: 0.97 } }),
      reference('starts in vain', wasted),
    ]
  },
}

const SLOT_WORK_MS = 50
const STEPS = [4, 1, 8]
const STEP_MS = 3_000

export const liveSlots: Row = {
  name: 'live-slots',
  load: `one line, slots ${STEPS.join(' → ')} every ${STEP_MS} ms, ${SLOT_WORK_MS} ms jobs, 4 × 25`,
  async run(harness, { smoke }) {
    const stepMs = smoke ? 1_500 : STEP_MS
    const name = newQueueName()
    const key = newQueueName()
    const queue = openQueue(harness, name)
    await queue.setSlots(key, STEPS[0] ?? 1)
    const count = Math.ceil((stepMs / SLOT_WORK_MS) * STEPS.reduce((sum, slots) => sum + slots, 0))
    await queue.addBulk(jobs(key, count, SLOT_WORK_MS))
    await harness.processes.work(harness.orders('strict', name, 25))
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
    await harness.processes.completed(count)
    const { runs } = await harness.stop()
    await queue.close()
    let above = 0
    const figures = changes.map(({ slots, at, given }, index) => {
      const until = changes[index + 1]?.at ?? endedAt
      // Those that had been given out when it was lowered are counted out.
      const before = runsAt(runs, at)
      const ran = runs.filter((run) => before.includes(run) || given.includes(run.nr))
      const later = runs.filter((run) => !ran.includes(run))
      for (const { startedAt } of later.filter(
        (run) => run.startedAt > at && run.startedAt < until,
      )) {
        const beside = runsAt(later, startedAt).length
        const stillRunning = ran.filter((run) => run.endedAt > startedAt).length
        above = Math.max(
          above,
          beside - Math.max(0, slots),
          beside + stillRunning - Math.max(slots, stillRunning),
        )
      }
      const fullAt = runs.find(
        ({ startedAt }) => startedAt > at && runsAt(runs, startedAt).length >= slots,
      )
      return reference(`slots ${slots}: full after`, (fullAt?.startedAt ?? Infinity) - at, 'ms')
    })
    const raised = figures.at(-1)
    return [
      none('jobs above the slots in force', above),
      ...figures.slice(0, -1),
      speed(`slots ${STEPS.at(-1) ?? 0}: full after`, raised?.value ?? Infinity, 'ms', {
        must: { atMost: 1_000 },
      }),
    ]
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
  async run(harness, { smoke, rounds }) {
    const [closed, jobs] = smoke ? [50, 200] : [CLOSED_LINES, BUSY_JOBS]
    const figures = []
    for (const busy of [1, 100]) {
      const turns = await takeTurns(['alone', 'beside'], { rounds, warmUps: 0 }, (where) =>
        speedOf(harness, where === 'beside' ? closed : 0, busy, jobs),
      )
      const ratio = turns.compared('beside', 'alone', (beside, alone) => beside / alone)
      const label = `${busy} busy: throughput beside them, of alone`
      figures.push(speed(label, ratio.median, 'x', { must: { atLeast: 0.95 } }))
    }
    return figures
  },
}

/** Every second closed line has a rate that its first job uses up; the others are paused. */
async function speedOf(
  harness: Harness,
  closed: number,
  busy: number,
  count: number,
): Promise<number> {
  const name = newQueueName()
  const queue = openQueue(harness, name)
  const limited = Array.from({ length: closed / 2 }, (_, index) => `${name}-limited-${index}`)
  const paused = limited.map((key) => `${key}-paused`)
  await Promise.all(limited.map((key) => queue.setRate(key, { limit: 1, perMs: 3_600_000 })))
  await Promise.all(paused.map((key) => queue.pauseResource(key)))
  for (const key of [...limited, ...paused]) await queue.addBulk(jobs(key, 3, 0))
  await harness.processes.work(harness.orders('strict', name, 25))
  await harness.processes.completed(limited.length)
  await queue.pause()
  for (let line = 0; line < busy; line++) {
    await queue.addBulk(jobs(`${name}-${line}`, count / busy, 0))
  }
  const startedAt = monotonicMs()
  await queue.resume()
  await harness.processes.completed(limited.length + count)
  const tookMs = monotonicMs() - startedAt
  await harness.stop()
  await queue.close()
  return count / tookMs
}
