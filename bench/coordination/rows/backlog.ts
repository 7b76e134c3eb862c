/** The same work with few and with very many jobs waiting behind it. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Contender } from '../job.ts'
import { mean, median } from '../../statistics.ts'
import { inTurns, newQueueName, type Harness } from '../harness.ts'
import { reference, speed, type Row } from '../row.ts'
import { CONCURRENCY } from './rounds.ts'

/** More lines than a sweep looks at in a second: its bound is what must not grow. */
const FEW = { waiting: 1_000, lines: 250, timed: 600 }
const MANY = { waiting: 100_000, lines: 10_000, timed: 4_000 }
const SMOKE_MANY = { waiting: 4_000, lines: 400, timed: 600 }
const PROCESSES = 4
const IDLE = { settleMs: 1_500, measuredMs: 8_000 }
const SMOKE_IDLE = { settleMs: 500, measuredMs: 1_000 }
const AT_ONCE = { settleMs: 0, measuredMs: 0 }
const WARM_UP_JOBS = 100
/** So few jobs are done soon: with few waiting they are timed several times. */
const FEW_TIMES = 4

interface Waiting {
  readonly waiting: number
  readonly lines: number
  /** For how many jobs the time is taken. */
  readonly timed: number
}

interface Measured {
  readonly bytesPerJob: number
  /** Of the queue's Redis while every slot is busy with one long job. */
  readonly idleCommandsPerSecond: number
  readonly msPerJob: number
}

export const backlog: Row = {
  name: 'backlog',
  load: `1,000 and 100,000 waiting jobs of 1 ms over 10,000 lines, 4 processes × ${CONCURRENCY}`,
  async run(harness, { rounds, smoke }) {
    const many = smoke ? SMOKE_MANY : MANY
    const idle = smoke ? SMOKE_IDLE : IDLE
    const pairs: { readonly few: Measured; readonly many: Measured }[] = []
    for (let round = 0; round < rounds; round++) {
      const few = await withWaiting(harness, 'strict', FEW, idle)
      const times = [few.msPerJob]
      while (!smoke && times.length < FEW_TIMES) {
        times.push((await withWaiting(harness, 'strict', FEW, AT_ONCE)).msPerJob)
      }
      pairs.push({
        few: { ...few, msPerJob: mean(times) },
        many: await withWaiting(harness, 'strict', many, idle),
      })
    }
    // A smoke run saves itself the reference.
    const plain = smoke ? undefined : await withWaiting(harness, 'plain', FEW, idle)
    const ratio = (of: (measured: Measured) => number): number =>
      median(pairs.map(({ few, many }) => of(many) / of(few)))
    const sweep = ({ idleCommandsPerSecond }: Measured): number => idleCommandsPerSecond
    return [
      speed(
        'time per job, many waiting / few',
        ratio(({ msPerJob }) => msPerJob),
        'x',
        { must: { atMost: 1.2 } },
      ),
      speed("idle commands per second at the queue's Redis, many / few", ratio(sweep), 'x', {
        must: { atMost: 1.2 },
      }),
      reference('… few', median(pairs.map(({ few }) => sweep(few)))),
      reference('… many', median(pairs.map(({ many }) => sweep(many)))),
      reference("bytes in the queue's Redis per waiting job", bytes(pairs), 'B'),
      ...(plain === undefined
        ? []
        : [
            reference('… plain BullMQ, few waiting: idle commands per second', sweep(plain)),
            reference('… plain BullMQ: bytes per waiting job', plain.bytesPerJob, 'B'),
          ]),
    ]
  },
}

function bytes(pairs: readonly { readonly many: Measured }[]): number {
  return median(pairs.map(({ many }) => many.bytesPerJob))
}

async function withWaiting(
  harness: Harness,
  contender: Contender,
  { waiting, lines, timed }: Waiting,
  idle: { readonly settleMs: number; readonly measuredMs: number },
): Promise<Measured> {
  const queue = newQueueName()
  const slots = PROCESSES * CONCURRENCY
  const before = await usedMemory(harness)
  // One long job for each slot: what happens meanwhile is not about running jobs.
  await harness.add(
    contender,
    queue,
    Array.from({ length: slots }, (_, nr) => ({
      key: `${queue}-long-${nr}`,
      nr: 0,
      workMs: 0,
      held: true as const,
    })),
  )
  await harness.add(contender, queue, inTurns(lines, waiting / lines, 1))
  const bytesPerJob = ((await usedMemory(harness)) - before) / (waiting + slots)
  await harness.processes.work(harness.orders(contender, queue, CONCURRENCY))
  await delay(idle.settleMs)
  const effortBefore = await harness.queueEffort()
  const idleFrom = performance.now()
  await delay(idle.measuredMs)
  const effortAfter = await harness.queueEffort()
  const seconds = (performance.now() - idleFrom) / 1_000
  if (harness.processes.done > 0) throw new Error('A job ran although every slot was busy')
  for (const worker of harness.processes.all) worker.release()
  await harness.processes.completed(WARM_UP_JOBS)
  const doneBefore = harness.processes.done
  const startedAt = performance.now()
  await harness.processes.completed(Math.min(doneBefore + timed, waiting))
  const msPerJob = (performance.now() - startedAt) / (harness.processes.done - doneBefore)
  await harness.stop()
  const commands = effortAfter.commands - effortBefore.commands
  return { bytesPerJob, idleCommandsPerSecond: commands / seconds, msPerJob }
}

async function usedMemory(harness: Harness): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await harness.queueRedis.info('memory'))?.[1])
}
