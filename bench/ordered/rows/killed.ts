/** `kill -9` of one of two worker processes while it runs jobs. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { oursMustNot } from '../../beside.ts'
import { inTurns, LEASE_MS, newQueueName } from '../../coordination/harness.ts'
import { judgeLines, type Event, type LineHistory } from '../../coordination/judge.ts'
import { onBun } from '../../coordination/servers.ts'
import { WorkerProcess } from '../../coordination/worker-processes.ts'
import { number } from '../../format.ts'
import type { Measured, Table } from '../../measured.ts'
import { takeTurns, type Rounds } from '../../rounds.ts'
import { sum } from '../../statistics.ts'
import type { Ordered } from '../contenders.ts'
import { PROCESSES, type OrderedHarness, type Row } from '../harness.ts'

const KEYS = 8
const EACH = 25
const SMOKE_EACH = 8
const WORK_MS = 40
const CONCURRENCY = 8
const ROUNDS = 3
/** So many jobs have run when the process dies. */
const KILL_AFTER = 3 * KEYS
/** … and so many run in it. */
const RUNNING = 2
const LIMIT_MS = 30_000
const SMOKE_LIMIT_MS = 8_000
/** A job that is run twice has been by then. */
const AFTERMATH_MS = 500
const POLL_MS = 5

interface Outcome extends LineHistory {
  readonly jobs: number
  /** By {@link LIMIT_MS} after the kill. */
  readonly notRun: number
  readonly endedTwice: number
}

export const killed: Row = {
  name: 'killed',
  load: `\`kill -9\` of one of ${PROCESSES} processes while it runs jobs; ${KEYS} keys × ${EACH} jobs × ${WORK_MS} ms, ${CONCURRENCY} slots each. Leases, and what the others have in their place, of ${LEASE_MS / 1_000} s where that can be set.`,
  async run(harness) {
    const { effort } = harness
    const contenders = effort.some(harness.contenders)
    const extent = { rounds: Math.min(effort.rounds, ROUNDS), warmUps: 0 }
    const rounds = await takeTurns(contenders, extent, (contender, round) => {
      harness.say(`killed: ${contender.name}, round ${round + 1}`)
      return kill(harness, contender)
    })
    return {
      tables: [tableOf(rounds, extent.rounds)],
      figures: [],
      wrong: oursMustNot(
        rounds,
        (one) => one.notRun + one.outOfOrder + one.overlaps,
        (times) => `killed: ${times} jobs of ours were lost, out of order or at once`,
      ),
    } satisfies Measured
  },
}

async function kill(harness: OrderedHarness, { name }: Ordered): Promise<Outcome> {
  const { runs, effort } = harness
  const queue = newQueueName()
  const jobs = inTurns(KEYS, effort.upTo(EACH, SMOKE_EACH), WORK_MS)
  const events: Event[] = []
  const kind = name === 'bunqueue' ? onBun() : undefined
  const workers = await Promise.all(
    Array.from({ length: PROCESSES }, () => WorkerProcess.start(undefined, kind)),
  )
  for (const [process, worker] of workers.entries()) {
    worker.listen((sighting) => events.push({ ...sighting, process }))
  }
  await runs.add(name, queue, jobs)
  const orders = { ...runs.orders(name, queue, CONCURRENCY), keys: KEYS, announce: true }
  const options = { ...orders, quiet: true, recoversSoon: true, removes: true }
  await Promise.all(workers.map((worker) => worker.work(options)))

  const limitMs = effort.upTo(LIMIT_MS, SMOKE_LIMIT_MS)
  const ends = (): readonly string[] =>
    events.flatMap((one) => (one.report === 'left' ? [`${one.key} ${one.nr}`] : []))
  await within(limitMs, () => ends().length >= Math.min(KILL_AFTER, jobs.length / 2))
  await within(limitMs, () => Math.max(...running(events)) >= RUNNING)
  await delay(WORK_MS / 2)
  const now = running(events)
  const dead = now.indexOf(Math.max(...now))
  const killedAt = monotonicMs()
  await workers[dead]?.kill()
  events.push({ report: 'died', process: dead, at: killedAt })
  await within(limitMs, () => new Set(ends()).size === jobs.length)
  await delay(AFTERMATH_MS)
  await Promise.all(workers.map((worker) => worker.kill()))
  await runs.clear(name, queue)

  const ended = ends()
  const done = new Set(ended)
  const history = judgeLines(events)
  const standsStill = done.size < jobs.length ? Infinity : history.longestStandstillMs
  return {
    ...history,
    ...{ jobs: jobs.length, notRun: jobs.length - done.size, endedTwice: ended.length - done.size },
    longestStandstillMs: standsStill,
  }
}

async function within(limitMs: number, isDone: () => boolean): Promise<void> {
  const until = performance.now() + limitMs
  while (!isDone() && performance.now() < until) await delay(POLL_MS)
}

/** How many jobs each process runs now. */
function running(events: readonly Event[]): readonly number[] {
  const counts = Array.from({ length: PROCESSES }, () => 0)
  for (const { report, process } of events) {
    counts[process] = (counts[process] ?? 0) + (report === 'entered' ? 1 : -1)
  }
  return counts
}

function tableOf(rounds: Rounds<Ordered, Outcome>, times: number): Table {
  const total = (contender: Ordered, of: (outcome: Outcome) => number): string =>
    number(sum(rounds.values(contender, of)))
  return {
    title: `${times} kills of each`,
    head: [
      ...['', 'jobs', `not run within ${LIMIT_MS / 1_000} s`, 'started again', 'ended twice'],
      ...['out of order', 'two of a key at once', 'longest standstill of a key, ms'],
    ],
    rows: rounds.contenders.map((contender) => {
      const worst = rounds.worst(contender, ({ longestStandstillMs }) => longestStandstillMs)
      return [
        contender.title,
        total(contender, ({ jobs }) => jobs),
        total(contender, ({ notRun }) => notRun),
        total(contender, ({ repeated }) => repeated),
        total(contender, ({ endedTwice }) => endedTwice),
        total(contender, ({ outOfOrder }) => outOfOrder),
        total(contender, ({ overlaps }) => overlaps),
        worst === Infinity ? `> ${number(LIMIT_MS)}` : number(Math.round(worst)),
      ]
    }),
  }
}
