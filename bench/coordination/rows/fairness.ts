/** Whether customers with few jobs are served while others keep all slots busy. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { takeTurns, type Rounds } from '../../rounds.ts'
import { mean, percentile, sorted } from '../../statistics.ts'
import { BusyLines } from '../busy-lines.ts'
import type { Contender, KeyedJob } from '../job.ts'
import { newQueueName, type Harness } from '../harness.ts'
import type { Effort } from '../../effort.ts'
import { reference, speed, type Figure, type Row } from '../row.ts'

const SLOTS = 5
const WORK_MS = 20
/** How many jobs of each busy line are there at any time. */
const DEPTH = 20
const TOP_UP_MS = 10
const WARM_UP_MS = 700
const LIGHT_LIMIT_MS = 5_000
const CONTENDERS = ['plain', 'strict', 'groupmq'] as const
/** groupmq serves no light job here: a smoke run does not wait for it. */
const SMOKE_CONTENDERS = ['plain', 'strict'] as const

interface Scene {
  readonly busyLines: number
  readonly lightJobs: number
  /** Each light job has a line of its own, or all share one. */
  readonly lightLines: 'one each' | 'one'
  readonly everyMs: number
}

interface Share {
  /** Of each light job, sorted; Infinity for one that did not start in time. */
  readonly waitsMs: readonly number[]
  readonly jobsPerSecond: number
}

export const lightCustomers: Row = {
  name: 'fairness',
  load: `8 busy lines on ${SLOTS} slots, ${WORK_MS} ms jobs; 20 jobs of other customers, 1 process`,
  async run(harness, extent) {
    const lightJobs = extent.smoke ? 4 : 20
    const scene = { busyLines: 8, lightJobs, lightLines: 'one each', everyMs: 150 } as const
    const shares = await inRounds(harness, extent, scene)
    const started = (contender: Contender): number =>
      Math.min(...shares.values(contender, ({ waitsMs }) => waitsMs.filter(Number.isFinite).length))
    const wait = (contender: Contender, part: number): number =>
      shares.median(contender, ({ waitsMs }) => percentile(waitsMs, part))
    return [
      {
        ...{ name: `light jobs started, of ${lightJobs}`, value: started('strict') },
        ...{ must: { atLeast: lightJobs }, kind: 'correctness' },
      },
      speed('p95 wait of a light job', wait('strict', 0.95), 'ms', {
        ...{ must: { atMost: 200 }, aim: { atMost: 130 } },
      }),
      reference('p50 wait', wait('strict', 0.5), 'ms'),
      ...othersIn(shares).flatMap((contender): readonly Figure[] => [
        reference(`… ${contender}: started, of ${lightJobs}`, started(contender)),
        reference(`… ${contender}: p50 wait`, wait(contender, 0.5), 'ms'),
        reference(`… ${contender}: p95 wait`, wait(contender, 0.95), 'ms'),
      ]),
      reference(THROUGHPUT, throughput(shares), 'x'),
    ]
  },
}

export const lightLine: Row = {
  name: 'light-line',
  load: `20 busy lines (${DEPTH} deep) and 1 light one on ${SLOTS} slots, ${WORK_MS} ms jobs`,
  async run(harness, extent) {
    const lightJobs = extent.smoke ? 4 : 20
    const scene = { busyLines: 20, lightJobs, lightLines: 'one', everyMs: 250 } as const
    const shares = await inRounds(harness, extent, scene)
    const waitMs = ({ waitsMs }: Share): number => mean(waitsMs)
    const ofPlain = shares.compared(
      'strict',
      'plain',
      (ours, plain) => waitMs(ours) / waitMs(plain),
    )
    return [
      speed('mean wait of the light line, of plain BullMQ', ofPlain.median, 'x', {
        ...{ must: { atMost: 0.15 }, aim: { atMost: 0.1 } },
      }),
      speed(THROUGHPUT, throughput(shares), 'x', {
        ...{ must: { atLeast: 0.92 }, aim: { atLeast: 0.95 } },
      }),
      reference('mean wait', shares.median('strict', waitMs), 'ms'),
      ...othersIn(shares).map((contender) =>
        reference(`… ${contender}`, shares.median(contender, waitMs), 'ms'),
      ),
    ]
  },
}

type Shares = Rounds<Contender, Share>

const THROUGHPUT = 'throughput of plain BullMQ, same run'

function throughput(shares: Shares): number {
  const compare = (ours: Share, plain: Share): number => ours.jobsPerSecond / plain.jobsPerSecond
  return shares.compared('strict', 'plain', compare).median
}

function othersIn({ contenders }: Shares): readonly Contender[] {
  return contenders.filter((contender) => contender !== 'strict')
}

function inRounds(harness: Harness, extent: Effort, scene: Scene): Promise<Shares> {
  const contenders = extent.smoke ? SMOKE_CONTENDERS : CONTENDERS
  const counted = { ...extent, warmUps: 0 }
  return takeTurns<Contender, Share>(contenders, counted, (name) =>
    play(harness, name, scene, extent.smoke),
  )
}

async function play(
  harness: Harness,
  contender: Contender,
  scene: Scene,
  smoke: boolean,
): Promise<Share> {
  const queue = newQueueName()
  const worker = harness.processes.one
  const lines = new BusyLines(queue, {
    ...{ lines: scene.busyLines, depth: DEPTH, workMs: WORK_MS, everyMs: TOP_UP_MS },
  })
  const light = new LightJobs(queue, scene)
  let done = 0
  const unlisten = worker.listen((report) => {
    if (report.report === 'entered') light.entered(report.key, report.nr, report.at)
    if (report.report !== 'left') return
    done++
    lines.left(report.key, report.nr)
  })
  const producer = await harness.producer(contender, queue)
  const endAdding = await lines.keepFull(producer)
  await worker.work({ ...harness.orders(contender, queue, SLOTS), announce: true })
  await delay(WARM_UP_MS)
  const doneBefore = done
  const startedAt = monotonicMs()
  for (let nr = 0; nr < scene.lightJobs; nr++) {
    await producer.add([light.next(nr)])
    await delay(scene.everyMs)
  }
  const jobsPerSecond = ((done - doneBefore) / (monotonicMs() - startedAt)) * 1_000
  const limit = monotonicMs() + (smoke ? LIGHT_LIMIT_MS / 2 : LIGHT_LIMIT_MS)
  while (light.waiting > 0 && monotonicMs() < limit) await delay(TOP_UP_MS)
  await endAdding()
  await worker.stop()
  unlisten()
  await producer.close()
  await harness.queueRedis.flushall()
  return { waitsMs: light.waitsMs(), jobsPerSecond }
}

/** How long the light jobs wait. */
class LightJobs {
  readonly #prefix: string
  readonly #lines: Scene['lightLines']
  readonly #addedAt = new Map<string, number>()
  readonly #waitsMs: number[] = []

  constructor(prefix: string, { lightLines }: Scene) {
    this.#prefix = prefix
    this.#lines = lightLines
  }

  /** Of those that were added. */
  get waiting(): number {
    return this.#addedAt.size
  }

  next(nr: number): KeyedJob {
    const key = `${this.#prefix}-light${this.#lines === 'one' ? '' : `-${nr}`}`
    this.#addedAt.set(`${key}#${nr}`, monotonicMs())
    return { key, nr, workMs: WORK_MS }
  }

  entered(key: string, nr: number, at: number): void {
    const addedAt = this.#addedAt.get(`${key}#${nr}`)
    if (addedAt === undefined) return
    this.#addedAt.delete(`${key}#${nr}`)
    this.#waitsMs.push(at - addedAt)
  }

  waitsMs(): readonly number[] {
    const never = Array.from({ length: this.waiting }, () => Infinity)
    return sorted([...this.#waitsMs, ...never])
  }
}
