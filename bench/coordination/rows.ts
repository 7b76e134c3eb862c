/** The loads, in the order of the table. */
import { setTimeout as delay } from 'node:timers/promises'
import { randomUUID } from 'node:crypto'
import type { Contender, KeyedJob } from './job.ts'
import { judge, median, percentile } from './judge.ts'
import { inTurns, type Lab, type Load, type Outcome } from './lab.ts'
import type { Figure, Row } from './row.ts'

const CONCURRENCY = 5

/** Contenders take turns within each round, so that a busy moment of the machine hits all of them. */
async function rounds(
  lab: Lab,
  count: number,
  contenders: readonly Contender[],
  load: Load,
): Promise<ReadonlyMap<Contender, readonly Outcome[]>> {
  const outcomes = new Map<Contender, Outcome[]>(contenders.map((name) => [name, []]))
  for (let round = 0; round < count; round++) {
    for (const name of contenders) outcomes.get(name)?.push(await lab.run(name, load))
  }
  return outcomes
}

const of = (
  outcomes: readonly Outcome[] | undefined,
  value: (outcome: Outcome) => number,
): number => median((outcomes ?? []).map(value))
const worst = (
  outcomes: readonly Outcome[] | undefined,
  value: (outcome: Outcome) => number,
): number => Math.max(...(outcomes ?? []).map(value))

function contended(
  name: string,
  keys: number,
  each: number,
  workMs: number,
  contenders: readonly Contender[],
  limits: { readonly makespan: number; readonly masterCommands?: number },
): Row {
  return {
    name,
    load: `${keys} ${keys === 1 ? 'key' : 'keys'} × ${each} jobs × ${workMs} ms, 4 processes × ${CONCURRENCY}`,
    async run(lab, count) {
      const idealMs = each * workMs
      const load = { jobs: inTurns(keys, each, workMs), concurrency: CONCURRENCY }
      const outcomes = await rounds(lab, count, contenders, load)
      const ours = outcomes.get('strict')
      const others = contenders.filter((contender) => contender !== 'strict')
      return [
        {
          name: 'makespan / ideal',
          value: of(ours, ({ makespanMs }) => makespanMs / idealMs),
          unit: 'x',
          atMost: limits.makespan,
          kind: 'speed',
        },
        ...others.map((contender): Figure => {
          const value = of(outcomes.get(contender), ({ makespanMs }) => makespanMs / idealMs)
          return { name: `… ${contender}`, value, unit: 'x', kind: 'reference' }
        }),
        {
          name: 'wasted activations per job',
          value: worst(ours, ({ wasted, runs }) => wasted / runs.length),
          atMost: 0,
          kind: 'correctness',
        },
        {
          name: 'inversions',
          value: worst(ours, ({ inversions }) => inversions),
          atMost: 0,
          kind: 'correctness',
        },
        {
          name: 'two jobs of a key at once',
          value: worst(ours, ({ overlaps }) => overlaps),
          atMost: 0,
          kind: 'correctness',
        },
        {
          name: 'client commands per job and lock master',
          value: of(ours, ({ masterCommands }) => masterCommands),
          atMost: limits.masterCommands ?? 2.2,
          kind: 'speed',
        },
        ...contenders.map((contender): Figure => ({
          name: `commands in the queue's Redis per job, ${contender}`,
          value: of(outcomes.get(contender), ({ queueCommands }) => queueCommands),
          kind: 'reference',
        })),
      ]
    },
  }
}

const throughput: Row = {
  name: 'throughput',
  load: '1,000 keys × 20 jobs that do nothing, 4 processes × 25',
  async run(lab, count) {
    const load = { jobs: inTurns(1_000, 20, 0), concurrency: 25 }
    const outcomes = await rounds(lab, count, ['plain', 'strict', 'gate'], load)
    const plain = of(outcomes.get('plain'), ({ tookMs }) => tookMs)
    const strict = of(outcomes.get('strict'), ({ tookMs }) => tookMs)
    const gate = of(outcomes.get('gate'), ({ tookMs }) => tookMs)
    const { length } = load.jobs
    return [
      {
        name: 'jobs per s / plain BullMQ',
        value: plain / strict,
        atLeast: 0.6,
        unit: 'x',
        kind: 'speed',
      },
      { name: '… on a plain Queue', value: plain / gate, unit: 'x', kind: 'reference' },
      { name: 'jobs per s', value: (length / strict) * 1_000, kind: 'reference' },
      { name: 'jobs per s, plain BullMQ', value: (length / plain) * 1_000, kind: 'reference' },
      {
        name: 'two jobs of a key at once',
        value: worst(outcomes.get('strict'), ({ overlaps }) => overlaps),
        atMost: 0,
        kind: 'correctness',
      },
      {
        name: 'inversions',
        value: worst(outcomes.get('strict'), ({ inversions }) => inversions),
        atMost: 0,
        kind: 'correctness',
      },
    ]
  },
}

const uncontended: Row = {
  name: 'uncontended',
  load: '5,000 keys × 1 job that does nothing, 4 processes × 5',
  async run(lab, count) {
    const load = { jobs: inTurns(5_000, 1, 0), concurrency: CONCURRENCY }
    const contenders = ['plain', 'strict', 'gate', 'groupmq'] as const
    const outcomes = await rounds(lab, count, contenders, load)
    const commands = (contender: Contender): number =>
      of(outcomes.get(contender), ({ queueCommands }) => queueCommands)
    return [
      ...contenders.map((contender): Figure => ({
        name: `commands in the queue's Redis per job, ${contender}`,
        value: commands(contender),
        kind: 'reference',
      })),
      {
        name: '… strict less plain',
        value: commands('strict') - commands('plain'),
        atMost: 7,
        kind: 'speed',
      },
    ]
  },
}

const HOT = 'hot'

/** One key's jobs one after the other, alone or among many others. */
const handOff: Row = {
  name: 'hand-off',
  load: '1 key × 100 jobs × 5 ms, alone / with 5,000 waiting jobs of other keys, 4 processes × 5',
  async run(lab, count) {
    const hot = Array.from({ length: 100 }, (_, nr) => ({ key: HOT, nr, workMs: 5 }))
    const cold = Array.from({ length: 5_000 }, (_, nr) => ({ key: `cold-${nr}`, nr: 0, workMs: 5 }))
    const gaps = async (jobs: readonly KeyedJob[]): Promise<readonly number[]> => {
      const { runs } = await lab.run('strict', { jobs, concurrency: CONCURRENCY })
      return judge(runs.filter(({ key }) => key === HOT)).gapsMs
    }
    const idle: (readonly number[])[] = []
    const busy: (readonly number[])[] = []
    for (let round = 0; round < count; round++) {
      idle.push(await gaps(hot))
      // The hot jobs come last: only the first of them waits behind the others.
      busy.push(await gaps([...cold.slice(0, 20), ...hot, ...cold.slice(20)]))
    }
    const p = (all: readonly (readonly number[])[], part: number): number =>
      median(all.map((values) => percentile(values, part)))
    return [
      { name: 'gap p50, idle', value: p(idle, 0.5), unit: 'ms', atMost: 2, kind: 'speed' },
      { name: 'gap p95, idle', value: p(idle, 0.95), unit: 'ms', atMost: 10, kind: 'speed' },
      { name: 'gap p50, busy', value: p(busy, 0.5), unit: 'ms', kind: 'reference' },
      { name: 'gap p95, busy', value: p(busy, 0.95), unit: 'ms', kind: 'reference' },
      {
        name: 'gap p50, busy / idle',
        value: p(busy, 0.5) / p(idle, 0.5),
        unit: 'x',
        atMost: 3,
        kind: 'speed',
      },
    ]
  },
}

const coldJobs: Row = {
  name: 'cold jobs',
  load: '30 jobs × 100 ms of a hot key ahead of 30 × 10 ms of other keys, 1 process × 5',
  async run(lab, count) {
    const hot = Array.from({ length: 30 }, (_, nr) => ({ key: HOT, nr, workMs: 100 }))
    const cold = Array.from({ length: 30 }, (_, nr) => ({ key: `cold-${nr}`, nr: 0, workMs: 10 }))
    const waits: number[] = []
    const makespans: number[] = []
    const [worker] = lab.crew.workers
    if (worker === undefined) throw new Error('There is no worker')
    for (let round = 0; round < count; round++) {
      const queue = `q-${randomUUID().slice(0, 8)}`
      await lab.add('strict', queue, [...hot, ...cold])
      await worker.work(lab.orders('strict', queue, CONCURRENCY))
      while (worker.done < 60) await delay(2)
      const { runs } = await worker.stop()
      const begun = Math.min(...runs.map(({ startedAt }) => startedAt))
      waits.push(...runs.filter(({ key }) => key !== HOT).map(({ startedAt }) => startedAt - begun))
      makespans.push(judge(runs).makespanMs)
    }
    return [
      { name: 'cold wait p50', value: median(waits), unit: 'ms', atMost: 70, kind: 'speed' },
      {
        name: 'hot makespan / ideal',
        value: median(makespans) / 3_000,
        unit: 'x',
        kind: 'reference',
      },
    ]
  },
}

const HEAP_SAMPLE = 2_000

/** The same work with few and with very many jobs waiting behind it. */
const backlog: Row = {
  name: 'backlog',
  load: `${HEAP_SAMPLE} jobs done while 1,000 / 100,000 wait over 10,000 keys, 4 processes × 5`,
  async run(lab) {
    const few = await withWaiting(lab, 1_000)
    const many = await withWaiting(lab, 100_000)
    const plain = await bytesPerPlainJob(lab, 20_000)
    return [
      {
        name: "bytes in the queue's Redis per waiting job",
        value: many.bytesPerJob,
        unit: 'B',
        kind: 'reference',
      },
      { name: '… plain BullMQ', value: plain, unit: 'B', kind: 'reference' },
      {
        name: 'bytes per waiting job, 100,000 / 1,000',
        value: many.bytesPerJob / few.bytesPerJob,
        unit: 'x',
        atMost: 1.3,
        kind: 'speed',
      },
      {
        name: 'time per job, 100,000 / 1,000',
        value: many.msPerJob / few.msPerJob,
        unit: 'x',
        atMost: 1.3,
        kind: 'speed',
      },
    ]
  },
}

async function usedMemory(lab: Lab): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await lab.queueRedis.info('memory'))?.[1])
}

async function withWaiting(
  lab: Lab,
  waiting: number,
): Promise<{ readonly bytesPerJob: number; readonly msPerJob: number }> {
  const queue = `q-${randomUUID().slice(0, 8)}`
  const before = await usedMemory(lab)
  const keys = Math.min(10_000, waiting / 10)
  await lab.add('strict', queue, inTurns(keys, waiting / keys, 1))
  const bytesPerJob = ((await usedMemory(lab)) - before) / waiting
  const orders = lab.orders('strict', queue, CONCURRENCY)
  const todo = Math.min(HEAP_SAMPLE, waiting / 2)
  await lab.crew.work(orders)
  const startedAt = performance.now()
  while (lab.crew.done < todo) await delay(1)
  const msPerJob = (performance.now() - startedAt) / lab.crew.done
  await lab.crew.stop()
  await lab.queueRedis.flushall()
  return { bytesPerJob, msPerJob }
}

async function bytesPerPlainJob(lab: Lab, waiting: number): Promise<number> {
  const before = await usedMemory(lab)
  await lab.add('plain', `q-${randomUUID().slice(0, 8)}`, inTurns(waiting / 10, 10, 1))
  const bytes = ((await usedMemory(lab)) - before) / waiting
  await lab.queueRedis.flushall()
  return bytes
}

export const rows: readonly Row[] = [
  contended('one line', 1, 60, 50, ['strict', 'gate', 'relaxed', 'groupmq'], { makespan: 1.03 }),
  contended('ten lines', 10, 30, 20, ['strict', 'gate', 'groupmq'], { makespan: 1.1 }),
  uncontended,
  throughput,
  handOff,
  coldJobs,
  backlog,
]
