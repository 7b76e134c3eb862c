/** Whether customers with few jobs are served while others keep all slots busy. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { figure } from '../../report.ts'
import { type Effort, mean, percentile, takeTurns } from '../../rounds.ts'
import { newQueueName, type Harness, type Row } from '../harness.ts'
import type { Contender, KeyedJob } from '../job.ts'

const SLOTS = 5
const WORK_MS = 20
/** How many jobs of each busy line are there at any time. */
const DEPTH = 20
const TOP_UP_MS = 10
const WARM_UP_MS = 700
const LIGHT_LIMIT_MS = 5_000

interface Scene {
  readonly busyLines: number
  /** Each light job has a line of its own, or all share one. */
  readonly lightLines: 'one each' | 'one'
  readonly everyMs: number
}

const THROUGHPUT = 'throughput of plain BullMQ, same run'

export const lightCustomers: Row = {
  name: 'fairness',
  load: `8 busy lines on ${SLOTS} slots, ${WORK_MS} ms jobs; 20 jobs of other customers, 1 process`,
  async run(harness, effort) {
    const count = effort.of(20, 4)
    const scene = { busyLines: 8, lightLines: 'one each', everyMs: 150 } as const
    const shares = await inRounds(harness, effort, scene, count)
    const started = (contender: Contender): number =>
      Math.min(...shares.values(contender, 'started'))
    const p95 = shares.spread('strict', 'p95Ms')
    const atLeast = { atLeast: count, isPromise: true } as const
    const others = shares.contenders.filter((contender) => contender !== 'strict')
    return {
      figures: [
        figure(`light jobs started, of ${count}`, started('strict'), '', atLeast),
        figure('p95 wait of a light job', p95, 'ms', { atMost: 200 }),
        ...others.flatMap((contender) => [
          figure(`… ${contender}: started, of ${count}`, started(contender), ''),
          figure(`… ${contender}: p95 wait`, shares.spread(contender, 'p95Ms'), 'ms'),
        ]),
        figure(THROUGHPUT, shares.ratio('strict', 'plain', 'jobsPerSecond'), 'x'),
      ],
    }
  },
}

export const lightLine: Row = {
  name: 'light-line',
  load: `20 busy lines (${DEPTH} deep) and 1 light one on ${SLOTS} slots, ${WORK_MS} ms jobs`,
  async run(harness, effort) {
    const scene = { busyLines: 20, lightLines: 'one', everyMs: 250 } as const
    const shares = await inRounds(harness, effort, scene, effort.of(20, 4))
    const wait = shares.ratio('strict', 'plain', 'meanMs')
    const speed = shares.ratio('strict', 'plain', 'jobsPerSecond')
    const waitName = 'mean wait of the light line, of plain BullMQ'
    return {
      figures: [
        figure(waitName, wait, 'x', { atMost: 0.15 }),
        figure(THROUGHPUT, speed, 'x', { atLeast: 0.92 }),
        ...shares.contenders.map((contender) =>
          figure(`mean wait, ${contender}`, shares.spread(contender, 'meanMs'), 'ms'),
        ),
      ],
    }
  },
}

function inRounds(harness: Harness, effort: Effort, scene: Scene, count: number) {
  // groupmq serves no light job here: a smoke run does not wait for it.
  const contenders: readonly Contender[] = ['plain', 'strict', 'groupmq']
  const limitMs = effort.of(LIGHT_LIMIT_MS, LIGHT_LIMIT_MS / 2)
  return takeTurns(contenders.slice(0, effort.of(3, 2)), { rounds: effort.rounds }, (name) =>
    play(harness, name, scene, count, limitMs),
  )
}

async function play(
  harness: Harness,
  contender: Contender,
  { busyLines, lightLines, everyMs }: Scene,
  count: number,
  limitMs: number,
) {
  const queue = newQueueName()
  // `ran` counts a job that runs again once.
  const lines = Array.from({ length: busyLines }, (_, nr) => {
    return { key: `${queue}-line-${nr}`, added: 0, ran: 0 }
  })
  const addedAt = new Map<string, number>()
  const waitsMs: number[] = []
  let done = 0
  const unlisten = harness.workers.listen(({ report, key, nr, at }) => {
    const added = addedAt.get(`${key}#${nr}`)
    if (report === 'entered' && added !== undefined) {
      addedAt.delete(`${key}#${nr}`)
      waitsMs.push(at - added)
    }
    if (report === 'entered') return
    done++
    const line = lines.find((one) => one.key === key)
    if (line !== undefined) line.ran = Math.max(line.ran, nr + 1)
  })
  const producer = await harness.producer(contender, queue)
  /** Each job that has run is replaced, one of each line in turns. */
  const fill = (): Promise<unknown> => {
    const jobs: KeyedJob[] = []
    for (let turn = 0; turn < DEPTH; turn++) {
      for (const line of lines) {
        if (line.added - line.ran >= DEPTH) continue
        jobs.push({ key: line.key, nr: line.added++, workMs: WORK_MS })
      }
    }
    return producer.add(jobs)
  }
  await fill()
  let isOver = (): boolean => false
  const filling = (async () => {
    while (!isOver()) {
      await delay(TOP_UP_MS)
      await fill()
    }
  })()
  await harness.workers.work({ ...harness.orders(contender, queue, SLOTS), announce: true }, 1)
  await delay(WARM_UP_MS)
  const doneBefore = done
  const startedAt = monotonicMs()
  for (let nr = 0; nr < count; nr++) {
    const key = `${queue}-light${lightLines === 'one' ? '' : `-${nr}`}`
    addedAt.set(`${key}#${nr}`, monotonicMs())
    await producer.add([{ key, nr, workMs: WORK_MS }])
    await delay(everyMs)
  }
  const jobsPerSecond = ((done - doneBefore) / (monotonicMs() - startedAt)) * 1_000
  const limit = monotonicMs() + limitMs
  while (addedAt.size > 0 && monotonicMs() < limit) await delay(TOP_UP_MS)
  isOver = () => true
  await filling
  await harness.workers.stop()
  unlisten()
  await producer.close()
  await harness.queueRedis.flushall()
  const started = waitsMs.length
  while (waitsMs.length < count) waitsMs.push(Infinity)
  return { started, p95Ms: percentile(waitsMs, 0.95), meanMs: mean(waitsMs), jobsPerSecond }
}
