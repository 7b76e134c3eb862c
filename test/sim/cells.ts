/**
 * How lock throughput grows with the number of cells when the masters are what limits it. One
 * machine cannot show that with real servers, whose clients need more of it than they do; so the
 * masters are simulated ones that take their time for every script, and time is virtual. The lock
 * is the real one.
 */
import { parseArgs } from 'node:util'
import { RedlockCells, silentLogger } from '../../src/index.ts'
import { FaultCounts } from './fault-counts.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedConnection } from './simulated-connection.ts'
import { SimulatedMaster } from './simulated-master.ts'
import { CALM, SimulatedNetwork } from './simulated-network.ts'
import { VirtualClock } from './virtual-clock.ts'
import { VirtualTime } from './virtual-time.ts'
import { WallClock } from './wall-clock.ts'

const USAGE = `How lock throughput grows with the number of cells, on simulated masters.

  npm run bench:cells -- [options]

  --cells N     up to so many cells (default 4)
  --seconds N   of virtual time each (default 2)
  --json        one JSON object`

const MAX_LEASE_MS = 10_000
const MASTERS_PER_CELL = 5
/**
 * One script of a master that does 1,000 a second: fewer events to simulate, and the same ratio.
 */
const SCRIPT_MS = 1
const CLIENTS = 8
const LOOPS_PER_CLIENT = 32
const WARM_UP_MS = 500

/** Does one thing after the other, and takes its time for each. */
class BusyMaster extends SimulatedMaster {
  readonly #time: VirtualTime
  #freeAt = 0

  constructor(options: ConstructorParameters<typeof SimulatedMaster>[0], time: VirtualTime) {
    super(options)
    this.#time = time
  }

  override take(run: () => void): void {
    this.#freeAt = Math.max(this.#freeAt, this.#time.now) + SCRIPT_MS
    this.#time.at(this.#freeAt, () => {
      super.take(run)
    })
  }
}

/** Leases a second. */
async function throughput(cells: number, seconds: number): Promise<number> {
  const time = new VirtualTime()
  const random = new SeededRandom(cells)
  const wall = (): WallClock => new WallClock({ time, offsetMs: 0, slew: 0, wanderMs: 0 })
  const faults = new FaultCounts()
  const network = new SimulatedNetwork({
    ...{ time, faults, profile: CALM, deadlineMs: MAX_LEASE_MS },
    random: random.fork(),
  })
  const masters = new Map<string, BusyMaster>()
  const names: Record<string, string[]> = {}
  for (let cell = 1; cell <= cells; cell++) {
    for (let nr = 1; nr <= MASTERS_PER_CELL; nr++) {
      const name = `cell-${cell}-master-${nr}`
      const options = { name, random: random.fork(), wall: wall(), disk: 'none' as const }
      const master = new BusyMaster({ ...options, trueNow: () => time.now }, time)
      master.eval('bootstrap', ['redlock:master'], [master.runId, MAX_LEASE_MS, MASTERS_PER_CELL])
      masters.set(name, master)
      ;(names[`cell-${cell}`] ??= []).push(`redis://${name}`)
    }
  }
  const count = { leases: 0 }
  const services = Array.from({ length: CLIENTS }, (_, client) => {
    const clock = new VirtualClock({ time, random: random.fork(), wall: wall(), rate: 1 })
    return new RedlockCells({
      cells: names,
      leaseMs: MAX_LEASE_MS,
      maxLeaseMs: MAX_LEASE_MS,
      masterTimeoutMs: 1_000,
      owner: `client-${client}`,
      logger: silentLogger,
      clock,
      connect: (connection) => {
        const { address } = connection
        const url = typeof address === 'string' ? address : ''
        const master = masters.get(url.slice('redis://'.length))
        if (master === undefined) throw new Error(`There is no master \`${url}\``)
        const link = network.link()
        return new SimulatedConnection(connection, {
          master,
          link,
          clock,
          observe: () => undefined,
        })
      },
    })
  })
  await during(time, Promise.all(services.map((service) => service.ready())))
  let loops = 0
  for (const service of services) {
    for (let loop = 0; loop < LOOPS_PER_CLIENT; loop++) {
      churn(service, `${service.namespace}:${loops++}`, count).catch((error: unknown) => {
        console.error(error)
        process.exit(1)
      })
    }
  }
  await time.runUntil(time.now + WARM_UP_MS)
  const before = count.leases
  await time.runUntil(time.now + seconds * 1_000)
  return (count.leases - before) / seconds
}

async function churn(
  service: RedlockCells,
  name: string,
  count: { leases: number },
): Promise<void> {
  for (let nr = 0; ; nr++) {
    const outcome = await service.tryAcquire(`${name}:${nr}`)
    if (outcome.status !== 'granted') throw new Error(JSON.stringify(outcome))
    await outcome.lease.release()
    count.leases++
  }
}

/** Lets time pass until `promise` settles. */
async function during(time: VirtualTime, promise: Promise<unknown>): Promise<void> {
  const state = { settled: false }
  void promise.finally(() => {
    state.settled = true
  })
  await time.runUntil(time.now + 10_000, () => state.settled)
  await promise
}

const { values } = parseArgs({
  options: {
    cells: { type: 'string', default: '4' },
    seconds: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const most = Number(values.cells)
const seconds = Number(values.seconds)
if (values.help || !Number.isInteger(most) || most < 1 || !(seconds > 0)) {
  console.error(USAGE)
  process.exit(values.help ? 0 : 2)
}
const rows: { cells: number; leasesPerSecond: number; ratio: number }[] = []
for (let cells = 1; cells <= most; cells++) {
  const leasesPerSecond = Math.round(await throughput(cells, seconds))
  const ratio = leasesPerSecond / (rows[0]?.leasesPerSecond ?? leasesPerSecond)
  rows.push({ cells, leasesPerSecond, ratio: Number(ratio.toFixed(2)) })
}
if (values.json) console.log(JSON.stringify({ simulated: true, scriptMs: SCRIPT_MS, rows }))
else console.table(rows)
process.exit(0) // The churning goes on for as long as time does.
