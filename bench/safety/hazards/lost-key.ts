/** A lease is on three of five masters, and one of the three loses its key. */
import { stat, truncate } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { aofOf } from '../../../test/support/aof.ts'
import type { Bench } from '../bench.ts'
import { fail, milliseconds, notApplicable, pass, type Cell, type Hazard } from '../hazard.ts'

const TTL_MS = 10_000
const FOREIGN_MS = 400
const HOUR_MS = 3_600_000
/** The master that loses the key. */
const LOSER = 2
const LEASE = `a lease of ${milliseconds(TTL_MS)} is on three of five masters`

export const emptyRestart: Hazard = {
  title: 'A master that restarts empty lets no second holder in',
  scenario: `${LEASE} and one of the three restarts without its data`,
  run: (bench) => judge(bench, undefined, () => loser(bench).restart({ keepData: false })),
}

export const halfDurable: Hazard = {
  title: 'A master that lost its last second lets no second holder in',
  scenario: `${LEASE}; one syncs its file once a second, and comes back as it was before`,
  run: (bench) =>
    judge(bench, 'everysec', async ({ file, size }) => {
      await loser(bench).kill()
      await truncate(file, size)
      await loser(bench).restart()
    }),
}

export const clockStep: Hazard = {
  title: 'A master whose clock steps forward lets no second holder in',
  scenario: `${LEASE} and the clock of one of the three steps forward by an hour`,
  run: (bench) => withClock(bench, undefined, (step) => step()),
}

export const wrongReboot: Hazard = {
  title: 'A master that reboots with a wrong clock lets no second holder in',
  scenario: `${LEASE} and one of the three reboots with its data and a clock that is an hour ahead`,
  run: (bench) =>
    withClock(bench, 'always', async (step) => {
      await loser(bench).kill()
      await step()
      await loser(bench).restart()
    }),
}

const loser = ({ masters }: Bench) => masters.server(LOSER)

async function withClock(
  bench: Bench,
  fsync: 'always' | undefined,
  strike: (step: () => Promise<void>) => Promise<void>,
): Promise<Cell> {
  const clock = bench.library.clocks?.clock(loser(bench).port)
  if (clock === undefined) return notApplicable('clocks of servers cannot be set here')
  const step = (): Promise<void> => {
    clock.step(HOUR_MS)
    return Promise.resolve()
  }
  try {
    return await judge(bench, fsync, () => strike(step))
  } finally {
    clock.step(-clock.aheadMs)
    await restart(bench, 'no')
  }
}

/** Empty. Whether it writes down what it does, and how soon. */
async function restart(bench: Bench, fsync: 'always' | 'everysec' | 'no'): Promise<void> {
  const config = fsync === 'no' ? { appendonly: 'no' } : { appendonly: 'yes', appendfsync: fsync }
  await loser(bench).restart({ keepData: false, config })
  await bench.masters.connection(LOSER).ping()
}

/** @param fsync of the loser; undefined where it has no file. */
async function judge(
  bench: Bench,
  fsync: 'always' | 'everysec' | undefined,
  strike: (before: { readonly file: string; readonly size: number }) => Promise<void>,
): Promise<Cell> {
  try {
    if (fsync !== undefined) await restart(bench, fsync)
    const client = await bench.client({ waitMs: 0 })
    const key = client.key('r')
    // Its file, as long as nothing holds a lease.
    const file = (fsync && (await aofOf(bench.masters.connection(LOSER)))) ?? ''
    const size = file === '' ? 0 : (await stat(file)).size
    await bench.occupy(key, [3, 4], FOREIGN_MS)
    const first = await client.acquire('r', TTL_MS, 3_000)
    if (first.status !== 'held') throw new Error(`not granted on three masters: ${first.status}`)
    // The foreign keys end.
    while ((await bench.ttlsMs(key)).slice(3).some((ttlMs) => ttlMs > 0)) await delay(5)
    const before = await bench.masters.connection(LOSER).pttl(key)
    await strike({ file, size })
    const other = await bench.other()
    const ttlsMs = await bench.ttlsMs(key)
    bench.happened('a key that was lost', before > 0 && ttlsMs[LOSER] === 0 ? 1 : 0)
    const second = await other.acquire('r', TTL_MS, 3_000)
    const isHeld = await client.soon('isHeld', first.held)
    const left = `${milliseconds(ttlsMs[0] ?? 0)} of the first's lease left`
    if (second.status === 'held' && isHeld) return fail(`a second client got it with ${left}`)
    const what = second.status === 'pending' ? 'had no answer' : 'was refused'
    return pass(`the second client ${what}; ${left}`)
  } finally {
    if (fsync !== undefined) await restart(bench, 'no')
  }
}
