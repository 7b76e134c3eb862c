/** Acquire and release of free resources on masters that wait for their disk. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFleet } from '../../../src/testing/index.ts'
import { OURS } from '../../peers/libraries.ts'
import { figure, number, type Figure, type Measured, type Table } from '../../report.ts'
import { takeTurns } from '../../rounds.ts'
import { median } from '../../statistics.ts'
import { locks, lockTable, noneMissed, peers, type Row } from '../harness.ts'

const CONCURRENCY = [1, 16, 64]
const SYNCED = { appendonly: 'yes', appendfsync: 'always' }
const SYNCS = 100

export const fsync: Row = {
  name: 'fsync',
  load: 'As `acquire`, on masters without persistence and on masters with `appendfsync always`, in turns.',
  async run(harness, effort): Promise<Measured> {
    await using fleet = await startFleet({ masters: 5, queue: false, config: SYNCED })
    await using onMemory = await harness.open(locks)
    await using onDisk = await harness.open(locks, () => ({ urls: fleet.urls }))
    const disk = `fdatasync of this disk: ${syncMs().toFixed(2)} ms`
    const forMs = effort.of(500, 60)
    const tables: Table[] = []
    const figures: Figure[] = []
    for (const concurrency of effort.some(CONCURRENCY)) {
      console.error(`fsync: ${concurrency} at a time`)
      const rounds = await takeTurns(locks, effort, async (contender) => {
        const memory = await onMemory.flow(contender, concurrency, forMs)
        const synced = await onDisk.flow(contender, concurrency, forMs)
        return { memory, synced, part: synced.perSecond / memory.perSecond }
      })
      const table = lockTable(`${concurrency} at a time; ${disk}`, rounds, [
        ['leases/s', ({ memory }) => memory.perSecond],
        ['with fsync', ({ synced }) => synced.perSecond],
        ['of it', 'part'],
        ['acquire p50, ms', ({ memory }) => memory.medianMs],
        ['with fsync', ({ synced }) => synced.medianMs],
      ])
      tables.push(table)
      const name = `Leases per second with \`appendfsync always\`, ${concurrency} at a time, of without`
      // The peer in the middle.
      const beside = `peers ${number(median(peers.map((peer) => rounds.median(peer, 'part'))))}`
      figures.push(
        figure(name, rounds.spread(OURS, 'part'), 'x', { beside }),
        noneMissed(rounds, ({ synced }) => synced.missed),
      )
    }
    return { tables, figures }
  },
}

/** What the disk takes for one small write, in the middle of many. */
function syncMs(): number {
  const directory = mkdtempSync(join(tmpdir(), 'fsync-'))
  const file = openSync(join(directory, 'file'), 'w')
  const times = Array.from({ length: SYNCS }, () => {
    const startedAt = performance.now()
    writeSync(file, 'x'.repeat(100))
    fdatasyncSync(file)
    return performance.now() - startedAt
  })
  closeSync(file)
  rmSync(directory, { recursive: true })
  return median(times)
}
