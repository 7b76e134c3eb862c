/**
 * What groupmq can do for a group, beside the same here: the same jobs, two worker processes, and
 * `kill -9` of one of them while it runs a job.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { LockedQueue } from '../../built.ts'
import { openGroupProducer } from '../peers/groupmq.ts'
import { newQueueName, type Harness } from '../harness.ts'
import type { KeyedJob, Sighting } from '../job.ts'
import { none, reference, type Figure, type Row } from '../row.ts'
import { WorkerProcesses } from '../worker-processes.ts'
import { CONCURRENCY } from './rounds.ts'

type Side = 'strict' | 'groupmq'

/** What is asked of one job. */
interface Wish {
  readonly delayMs?: number
  /** Lower ones run first. */
  readonly priority?: number
  readonly isCancelled?: boolean
  readonly fails?: true
}

interface Capability {
  readonly name: string
  readonly wish: (nr: number, each: number) => Wish
  /** In which order the jobs of a group run. @defaultValue that of adding */
  readonly isReversed?: true
}

const CAPABILITIES: readonly Capability[] = [
  { name: 'one job of a group at a time', wish: () => ({}) },
  { name: 'order with retries', wish: (nr) => (nr % 4 === 1 ? { fails: true } : {}) },
  {
    name: 'priority in a group',
    wish: (nr, each) => ({ priority: each - nr }),
    isReversed: true,
  },
  { name: 'delayed jobs', wish: () => ({ delayMs: 1_500 }) },
  { name: 'cancel of waiting jobs', wish: (nr) => ({ isCancelled: nr % 4 === 3 }) },
]
/** By the types and the README of groupmq 1.1. */
const HAS_NONE =
  'several jobs of a group at once, a rate, a pause of one group, weights, tenants, position, ' +
  'the cancel of a running job, batches in a processor'

const GROUPS = 3
const WORK_MS = 100
const ATTEMPTS = 5
const LIMIT_MS = 15_000
const SMOKE_LIMIT_MS = 8_000
/** A job that was run twice has been by then. */
const AFTERMATH_MS = 500

interface Seen extends Sighting {
  readonly process: number
}

interface Damage {
  lost: number
  twice: number
  outOfOrder: number
  tooEarly: number
  cancelledRan: number
  /** From the kill until the next start in a group of which the dead process ran a job. */
  stoodStillMs: number
}

export const capabilities: Row = {
  name: 'capabilities',
  load: `${GROUPS} groups, ${WORK_MS} ms jobs, 2 processes, kill -9 of one while it runs a job`,
  async run(harness, { rounds, smoke }) {
    const figures: Figure[] = []
    for (const capability of CAPABILITIES) {
      const found: Record<Side, Damage[]> = { strict: [], groupmq: [] }
      const sides: readonly Side[] = smoke ? ['strict'] : ['strict', 'groupmq']
      for (let round = 0; round < (smoke ? 1 : rounds); round++) {
        for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
          found[side].push(await damage(harness, side, capability, smoke))
        }
      }
      figures.push(...figuresOf(capability.name, found))
    }
    return [...figures, { ...reference('groupmq has none of', 8), note: HAS_NONE }]
  },
}

function figuresOf(name: string, { strict, groupmq }: Record<Side, readonly Damage[]>): Figure[] {
  const ours = summed(strict)
  const wrong = ours.lost + ours.twice + ours.outOfOrder + ours.tooEarly + ours.cancelledRan
  const theirs = summed(groupmq)
  return [
    none(`${name}: jobs that went wrong`, wrong),
    { ...reference('… stood still, worst', ours.stoodStillMs, 'ms'), note: inWords(ours) },
    ...(groupmq.length === 0
      ? []
      : [
          {
            ...reference('… stood still, worst, groupmq', theirs.stoodStillMs, 'ms'),
            note: inWords(theirs),
          },
        ]),
  ]
}

function summed(damages: readonly Damage[]): Damage {
  const sum = (of: (damage: Damage) => number): number =>
    damages.reduce((total, damage) => total + of(damage), 0)
  return {
    lost: sum(({ lost }) => lost),
    twice: sum(({ twice }) => twice),
    outOfOrder: sum(({ outOfOrder }) => outOfOrder),
    tooEarly: sum(({ tooEarly }) => tooEarly),
    cancelledRan: sum(({ cancelledRan }) => cancelledRan),
    stoodStillMs: Math.max(0, ...damages.map(({ stoodStillMs }) => stoodStillMs)),
  }
}

const inWords = ({ lost, twice, outOfOrder, tooEarly, cancelledRan }: Damage): string =>
  `lost ${lost}, twice ${twice}, out of order ${outOfOrder}` +
  (tooEarly > 0 ? `, too early ${tooEarly}` : '') +
  (cancelledRan > 0 ? `, cancelled and ran ${cancelledRan}` : '')

async function damage(
  harness: Harness,
  side: Side,
  { wish, isReversed }: Capability,
  smoke: boolean,
): Promise<Damage> {
  const each = smoke ? 5 : 12
  const queue = newQueueName()
  const jobs = Array.from({ length: each * GROUPS }, (_, index): KeyedJob => {
    const nr = Math.floor(index / GROUPS)
    const { fails } = wish(nr, each)
    return { key: `${queue}-${index % GROUPS}`, nr, workMs: WORK_MS, ...(fails && { fails }) }
  })
  const wishes = jobs.map(({ nr }) => wish(nr, each))
  await using processes = await WorkerProcesses.start(2)
  const seen: Seen[] = []
  for (const [process, worker] of processes.all.entries()) {
    worker.listen((sighting) => seen.push({ ...sighting, process }))
  }
  const addedAt = monotonicMs()
  await add(harness, side, queue, jobs, wishes)
  const orders = { ...harness.orders(side, queue, CONCURRENCY), announce: true, quiet: true }
  await Promise.all(processes.all.map((worker) => worker.work(orders)))
  const expected = jobs.filter((_, index) => wishes[index]?.isCancelled !== true)
  const left = (): Seen[] => seen.filter(({ report }) => report === 'left')
  const isDone = (): boolean =>
    new Set(left().map(({ key, nr }) => `${key} ${nr}`)).size >= expected.length
  const running = (): Seen[] =>
    seen.filter(({ report, key, nr }, index) => {
      const isSame = (other: Seen): boolean => other.key === key && other.nr === nr
      return report === 'entered' && !seen.slice(index + 1).some(isSame)
    })
  const limitMs = smoke ? SMOKE_LIMIT_MS : LIMIT_MS
  await within(limitMs, () => left().length >= GROUPS && running().length > 0)
  const killedAt = monotonicMs()
  const dead = running()[0]?.process ?? 0
  const interrupted = running().filter(({ process }) => process === dead)
  await processes.all[dead]?.kill()
  await within(limitMs, isDone)
  await delay(AFTERMATH_MS)
  await processes.all[1 - dead]?.kill()
  await harness.queueRedis.flushall()

  const outcome: Damage = {
    ...{ lost: 0, twice: 0, outOfOrder: 0, tooEarly: 0, cancelledRan: 0, stoodStillMs: 0 },
  }
  for (const [index, { key, nr }] of jobs.entries()) {
    const own = seen.filter((one) => one.key === key && one.nr === nr)
    const ends = own.filter(({ report }) => report === 'left').length
    const { isCancelled, delayMs } = wishes[index] ?? {}
    if (isCancelled === true) outcome.cancelledRan += own.length > 0 ? 1 : 0
    else if (ends === 0) outcome.lost++
    else if (ends > 1) outcome.twice++
    if (own.some(({ at }) => at < addedAt + (delayMs ?? 0))) outcome.tooEarly++
  }
  for (const group of new Set(jobs.map(({ key }) => key))) {
    const own = seen.filter(({ key }) => key === group).toSorted((a, b) => a.at - b.at)
    const ended = new Set<number>()
    const isBefore = (a: number, b: number): boolean => (isReversed === true ? a > b : a < b)
    for (const { report, nr } of own) {
      if (report === 'left') ended.add(nr)
      else if (
        expected.some((job) => job.key === group && isBefore(job.nr, nr) && !ended.has(job.nr))
      )
        outcome.outOfOrder++
    }
    if (!interrupted.some(({ key }) => key === group)) continue
    const next = own.find(({ report, at }) => report === 'entered' && at > killedAt)
    outcome.stoodStillMs = Math.max(outcome.stoodStillMs, (next?.at ?? Infinity) - killedAt)
  }
  return outcome
}

async function within(limitMs: number, isDone: () => boolean): Promise<void> {
  const until = performance.now() + limitMs
  while (!isDone() && performance.now() < until) await delay(5)
}

async function add(
  harness: Harness,
  side: Side,
  name: string,
  jobs: readonly KeyedJob[],
  wishes: readonly Wish[],
): Promise<void> {
  const place = harness.orders(side, name, CONCURRENCY)
  if (side === 'groupmq') {
    const producer = await openGroupProducer(place)
    const isToGo = (index: number): boolean => wishes[index]?.isCancelled === true
    const ids = await producer.addEach(jobs, (index) => ({
      maxAttempts: ATTEMPTS,
      delay: wishes[index]?.delayMs,
      orderMs: Date.now() + (wishes[index]?.priority ?? 0),
    }))
    for (const [index, id] of ids.entries()) if (isToGo(index)) await producer.remove(id)
    await producer.close()
    return
  }
  const queue = new LockedQueue<KeyedJob>(name, {
    connection: place.connection,
    ...{ resource: ({ key }: KeyedJob) => key, within: 'priority' },
  })
  const added = await queue.addBulk(
    jobs.map((data, index) => {
      const { delayMs: delayed, priority } = wishes[index] ?? {}
      const opts = { ...(delayed && { delay: delayed }), ...(priority && { priority }) }
      return { name: 'job', data, opts: { attempts: ATTEMPTS, ...opts } }
    }),
  )
  for (const [index, job] of added.entries()) {
    if (wishes[index]?.isCancelled === true) await queue.cancel(job.id ?? '')
  }
  await queue.close()
}
