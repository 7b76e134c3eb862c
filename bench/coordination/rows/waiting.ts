/** How long jobs wait for their turn, and what many waiting ones cost. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { KeyedJob } from '../job.ts'
import { judge, median, percentile } from '../judge.ts'
import { inTurns, type Lab } from '../lab.ts'
import type { Row } from '../row.ts'
import { CONCURRENCY } from './rounds.ts'

const HOT = 'hot'

/** One key's jobs one after the other, alone or among many others. */
export const handOff: Row = {
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
    const plain: (readonly number[])[] = []
    const busy: (readonly number[])[] = []
    for (let round = 0; round < count; round++) {
      idle.push(await gaps(hot))
      plain.push((await lab.run('plain', { jobs: hot, concurrency: 1, processes: 1 })).gapsMs)
      // The hot jobs come last: only the first of them waits behind the others.
      busy.push(await gaps([...cold.slice(0, 20), ...hot, ...cold.slice(20)]))
    }
    const p = (all: readonly (readonly number[])[], part: number): number =>
      median(all.map((values) => percentile(values, part)))
    return [
      { name: 'gap p50, idle', value: p(idle, 0.5), unit: 'ms', atMost: 2, kind: 'speed' },
      { name: 'gap p95, idle', value: p(idle, 0.95), unit: 'ms', atMost: 10, kind: 'speed' },
      {
        name: '… plain BullMQ, one job at a time',
        value: p(plain, 0.5),
        unit: 'ms',
        kind: 'reference',
      },
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

export const coldJobs: Row = {
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
export const backlog: Row = {
  name: 'backlog',
  load: `${HEAP_SAMPLE} jobs done while 1,000 / 100,000 wait over 10,000 keys, 4 processes × 5`,
  async run(lab, count) {
    const pairs: { readonly few: Waited; readonly many: Waited }[] = []
    for (let round = 0; round < count; round++) {
      pairs.push({ few: await withWaiting(lab, 1_000), many: await withWaiting(lab, 100_000) })
    }
    const ratio = (of: (waited: Waited) => number): number =>
      median(pairs.map(({ few, many }) => of(many) / of(few)))
    const plain = await bytesPerPlainJob(lab, 20_000)
    return [
      {
        name: "bytes in the queue's Redis per waiting job",
        value: median(pairs.map(({ many }) => many.bytesPerJob)),
        unit: 'B',
        kind: 'reference',
      },
      { name: '… plain BullMQ', value: plain, unit: 'B', kind: 'reference' },
      {
        name: 'bytes per waiting job, 100,000 / 1,000',
        value: ratio(({ bytesPerJob }) => bytesPerJob),
        unit: 'x',
        atMost: 1.3,
        kind: 'speed',
      },
      {
        name: 'time per job, 100,000 / 1,000',
        value: ratio(({ msPerJob }) => msPerJob),
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

interface Waited {
  readonly bytesPerJob: number
  readonly msPerJob: number
}

async function withWaiting(lab: Lab, waiting: number): Promise<Waited> {
  const queue = `q-${randomUUID().slice(0, 8)}`
  const before = await usedMemory(lab)
  const keys = Math.min(10_000, waiting / 10)
  await lab.add('strict', queue, inTurns(keys, waiting / keys, 1))
  const bytesPerJob = ((await usedMemory(lab)) - before) / waiting
  const orders = lab.orders('strict', queue, CONCURRENCY)
  const todo = Math.min(HEAP_SAMPLE, waiting / 2)
  await lab.crew.work(orders)
  const startedAt = performance.now()
  await lab.crew.completed(todo)
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
