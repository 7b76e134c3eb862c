/** Workers and lock masters that go away under load: what becomes of the lines meanwhile. */
import { setTimeout as delay } from 'node:timers/promises'
import { Queue } from 'bullmq'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import type { Orders } from '../job.ts'
import { BusyLines } from '../busy-lines.ts'
import { judgeLines, type Event } from '../judge.ts'
import { LEASE_MS, newQueueName, type Harness, type Producer } from '../harness.ts'
import { none, reference, speed, type Row } from '../row.ts'
import { WorkerProcess } from '../worker-processes.ts'

const PROCESSES = 3
const SMOKE_PROCESSES = 2
const CONCURRENCY = 8
const LINES = 30
const WORK_MS = 50
/** How many jobs of each line are there at any time. */
const DEPTH = 20
const SMOKE_DEPTH = 8
const TOP_UP_MS = 50
const TIMES = 10
const SMOKE_PART = 10
const BETWEEN_MS = { min: 700, max: 1_300 }
const OUTAGE_MS = 3_000
const END_LIMIT_MS = 60_000
const POLL_MS = 50

/** One thing that happens to the running system. */
type Blow = (scene: Scene) => Promise<void>

/** The processes are replaced before the next blow. */
export const killedWorkers: Row = upheaval(
  'killed-workers',
  'kill -9 of a worker',
  LEASE_MS + 2_000,
  async (scene) => {
    const next = await scene.startWorker()
    await scene.killWorker()
    await next()
  },
)

export const rollingRestart: Row = upheaval(
  'rolling-restart',
  'close of a worker after its successor has started',
  LEASE_MS + 2_000,
  async (scene) => {
    const next = await scene.startWorker()
    await next()
    await scene.closeWorker()
  },
)

export const outage: Row = upheaval(
  'outage',
  `freeze of three of the five lock masters for ${OUTAGE_MS} ms`,
  OUTAGE_MS + LEASE_MS + 2_000,
  async ({ harness }) => {
    const masters = harness.fleet.masters.slice(0, 3)
    await Promise.all(masters.map((master) => master.freeze()))
    await delay(OUTAGE_MS)
    await Promise.all(masters.map((master) => master.thaw()))
  },
  2,
)

function upheaval(
  name: string,
  what: string,
  standstillMs: number,
  blow: Blow,
  times: number = TIMES,
): Row {
  return {
    name,
    load: `${what}, ${times} times; ${LINES} lines × ${WORK_MS} ms, ${PROCESSES} × ${CONCURRENCY}`,
    async run(harness, { smoke }) {
      const scene = await Scene.open(harness, smoke)
      const blows = smoke ? Math.ceil(times / SMOKE_PART) : times
      for (let nr = 0; nr < blows; nr++) {
        await delay(BETWEEN_MS.min + Math.random() * (BETWEEN_MS.max - BETWEEN_MS.min))
        await blow(scene)
      }
      const lost = await scene.end()
      const { outOfOrder, overlaps, repeated, longestStandstillMs } = judgeLines(scene.events)
      return [
        none('jobs lost', lost),
        none('starts out of order', outOfOrder),
        none('two jobs of a line at once', overlaps),
        speed('longest standstill of a line with jobs', longestStandstillMs, 'ms', {
          must: { atMost: standstillMs },
        }),
        reference('jobs', scene.added),
        reference('jobs that started again', repeated),
        reference('starts in vain', scene.wasted),
      ]
    },
  }
}

class Scene {
  readonly harness: Harness
  readonly events: Event[] = []
  wasted = 0
  readonly #orders: Orders
  readonly #producer: Producer
  readonly #plain: Queue
  readonly #lines: BusyLines
  #endAdding = (): Promise<void> => Promise.resolve()
  /** The oldest first. */
  readonly #workers: { readonly process: number; readonly worker: WorkerProcess }[] = []
  #started = 0

  static async open(harness: Harness, smoke: boolean): Promise<Scene> {
    const queue = newQueueName()
    const scene = new Scene(harness, queue, await harness.producer('strict', queue), smoke)
    const size = smoke ? SMOKE_PROCESSES : PROCESSES
    const workers = await Promise.all(Array.from({ length: size }, () => scene.startWorker()))
    await Promise.all(workers.map((work) => work()))
    scene.#endAdding = await scene.#lines.keepFull(scene.#producer)
    return scene
  }

  private constructor(harness: Harness, queue: string, producer: Producer, smoke: boolean) {
    this.harness = harness
    this.#orders = { ...harness.orders('strict', queue, CONCURRENCY), announce: true, quiet: true }
    this.#producer = producer
    this.#plain = new Queue(queue, { connection: this.#orders.connection })
    this.#lines = new BusyLines(queue, {
      ...{ lines: smoke ? LINES / 3 : LINES, depth: smoke ? SMOKE_DEPTH : DEPTH },
      ...{ workMs: WORK_MS, everyMs: TOP_UP_MS },
    })
  }

  get added(): number {
    return this.#lines.added
  }

  /** Starts a process; the returned function makes it work. */
  async startWorker(): Promise<() => Promise<void>> {
    const process = this.#started++
    const worker = await WorkerProcess.start()
    worker.listen((report) => {
      if (report.report !== 'entered' && report.report !== 'left') return
      this.events.push({ ...report, process })
      if (report.report === 'left') this.#lines.left(report.key, report.nr)
    })
    return async () => {
      await worker.work(this.#orders)
      this.#workers.push({ process, worker })
    }
  }

  async killWorker(): Promise<void> {
    const oldest = this.#workers.shift()
    if (oldest === undefined) return
    const at = monotonicMs()
    await oldest.worker.kill()
    this.events.push({ report: 'died', process: oldest.process, at })
  }

  async closeWorker(): Promise<void> {
    const oldest = this.#workers.shift()
    if (oldest === undefined) return
    const { wasted } = await oldest.worker.stop()
    this.wasted += wasted
    await oldest.worker.leave()
  }

  /** Waits until all jobs are done; returns how many are not. */
  async end(): Promise<number> {
    await this.#endAdding()
    const limit = monotonicMs() + END_LIMIT_MS
    const remaining = async (): Promise<number> =>
      this.added - (await this.#plain.getCompletedCount())
    while ((await remaining()) > 0 && monotonicMs() < limit) await delay(POLL_MS)
    const lost = await remaining()
    while (this.#workers.length > 0) await this.closeWorker()
    await this.#producer.close()
    await this.#plain.close()
    await this.harness.queueRedis.flushall()
    return lost
  }
}
