/** A lease is on three of five masters, and one of the three loses its key. */
import { stat, truncate } from 'node:fs/promises'
import type { TestServer } from '../../../src/testing/index.ts'
import { aofOf } from '../../../test/support/aof.ts'
import type { Bench } from '../bench.ts'
import { fail, milliseconds, notApplicable, pass, type Cell, type Hazard } from '../hazard.ts'

const TTL_MS = 10_000
const FOREIGN_MS = 400
const HOUR_MS = 3_600_000
/** The master that loses the key. */
const LOSER = 2

interface Fault {
  /** Before the clients connect. */
  prepare?(bench: Bench): Promise<void>
  /** They are connected, and nothing holds a lease. */
  connected?(bench: Bench): Promise<void>
  strike(bench: Bench): Promise<void>
  /** Makes the master what it was for the rows that follow. */
  restore?(bench: Bench): Promise<void>
}

export const emptyRestart: Hazard = {
  name: 'empty-restart',
  title: 'A master that restarts empty lets no second holder in',
  scenario: `${leaseOf(TTL_MS)} and one of the three restarts without its data`,
  run: (bench) => judge(bench, { strike: () => loser(bench).restart({ keepData: false }) }),
}

export const halfDurable: Hazard = {
  name: 'half-durable',
  title: 'A master that lost its last second lets no second holder in',
  scenario: `${leaseOf(TTL_MS)}; one syncs its file once a second, and comes back as it was before`,
  run(bench) {
    let file = ''
    let size = 0
    return judge(bench, {
      prepare: () => keepsData(bench, 'everysec'),
      async connected() {
        file = (await aofOf(bench.masters.connection(LOSER))) ?? 'no-aof'
        size = (await stat(file)).size
      },
      async strike() {
        await loser(bench).kill()
        await truncate(file, size)
        await loser(bench).restart()
      },
      restore: keepsNothing,
    })
  },
}

export const clockStep: Hazard = {
  name: 'clock-step',
  title: 'A master whose clock steps forward lets no second holder in',
  scenario: `${leaseOf(TTL_MS)} and the clock of one of the three steps forward by an hour`,
  run: (bench) =>
    withClock(bench, {
      strike: () => Promise.resolve(bench.clocks?.clock(loser(bench).port).step(HOUR_MS)),
    }),
}

export const wrongReboot: Hazard = {
  name: 'wrong-reboot',
  title: 'A master that reboots with a wrong clock lets no second holder in',
  scenario: `${leaseOf(TTL_MS)} and one of the three reboots with its data and a clock that is an hour ahead`,
  run: (bench) =>
    withClock(bench, {
      prepare: () => keepsData(bench, 'always'),
      async strike() {
        await loser(bench).kill()
        bench.clocks?.clock(loser(bench).port).step(HOUR_MS)
        await loser(bench).restart()
      },
    }),
}

function leaseOf(ttlMs: number): string {
  return `a lease of ${milliseconds(ttlMs)} is on three of five masters`
}

function loser({ masters }: Bench): TestServer {
  return masters.server(LOSER)
}

/** It writes down what it does, at once or once a second. */
async function keepsData(bench: Bench, appendfsync: 'always' | 'everysec'): Promise<void> {
  const config = { appendonly: 'yes', appendfsync }
  await loser(bench).restart({ keepData: false, config })
  await bench.masters.connection(LOSER).ping()
}

async function keepsNothing(bench: Bench): Promise<void> {
  await loser(bench).restart({ keepData: false, config: { appendonly: 'no' } })
}

function withClock(bench: Bench, fault: Fault): Promise<Cell> {
  const clock = bench.clocks?.clock(loser(bench).port)
  if (clock === undefined) {
    return Promise.resolve(notApplicable('clocks of servers cannot be set here'))
  }
  const restore = (): Promise<void> => {
    clock.step(-clock.aheadMs)
    return keepsNothing(bench)
  }
  return judge(bench, { ...fault, restore })
}

async function judge(bench: Bench, fault: Fault): Promise<Cell> {
  try {
    await fault.prepare?.(bench)
    const client = await bench.client({ waitMs: 0 })
    const key = client.key('r')
    await fault.connected?.(bench)
    await bench.occupy(key, [3, 4], FOREIGN_MS)
    const first = await client.acquire('r', TTL_MS, 3_000)
    if (first.status !== 'held') throw new Error(`not granted on three masters: ${first.status}`)
    await bench.until(
      async () => (await bench.ttlsMs(key)).slice(3).every((ttlMs) => ttlMs === 0),
      'the foreign keys are gone',
    )
    const before = await bench.masters.connection(LOSER).pttl(key)
    await fault.strike(bench)
    const other = await bench.other()
    const afterMs = (await bench.ttlsMs(key))[LOSER]
    bench.happened('a key that was lost', before > 0 && afterMs === 0 ? 1 : 0)
    const leftMs = (await bench.ttlsMs(key))[0] ?? 0
    const second = await other.acquire('r', TTL_MS, 3_000)
    const isHeld = await client.isHeld(first.held)
    if (second.status === 'held' && isHeld) {
      return fail(`a second client got it with ${milliseconds(leftMs)} of the first's lease left`)
    }
    const what = second.status === 'pending' ? 'had no answer' : 'was refused'
    return pass(`the second client ${what}; ${milliseconds(leftMs)} of the first's lease left`)
  } finally {
    await fault.restore?.(bench)
  }
}
