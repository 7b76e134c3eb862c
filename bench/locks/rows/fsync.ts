/** Acquire and release of free resources on masters that wait for their disk. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFleet } from '../../../src/testing/index.ts'
import { lockLibraries } from '../contender.ts'
import { shown } from '../../format.ts'
import type { Row } from '../harness.ts'
import type { FlowResult } from '../loads/calls.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import { type Contender, oursIn, oursMustNot, tableRows } from '../../beside.ts'
import type { Figure, Measured } from '../../measured.ts'
import { median, spread } from '../../statistics.ts'

const CONCURRENCY = [1, 16, 64] as const
/** A multiple of every concurrency, so that no two clients meet. */
const RESOURCES = 10_240
const FOR_MS = 500
const SYNCED = { appendonly: 'yes', appendfsync: 'always' }
const SYNCS = 100

interface Sample {
  readonly memory: FlowResult
  readonly synced: FlowResult
}

interface Level {
  readonly concurrency: number
  readonly rounds: Rounds<Contender, Sample>
}

const perSecond = ({ done, tookMs }: FlowResult): number => (done / tookMs) * 1_000
const part = ({ memory, synced }: Sample): number => perSecond(synced) / perSecond(memory)

export const fsync: Row = {
  name: 'fsync',
  load: 'As `acquire`, on masters without persistence and on masters with `appendfsync always`, in turns.',
  async run(harness) {
    const { effort } = harness
    await using fleet = await startFleet({ masters: 5, queue: false, config: SYNCED })
    await using onMemory = await harness.open(lockLibraries)
    await using onDisk = await harness.open(lockLibraries, () => ({ urls: fleet.urls }))
    const levels: Level[] = []
    for (const concurrency of effort.some(CONCURRENCY)) {
      harness.say(`fsync: ${concurrency} at a time`)
      const flow = { concurrency, resources: RESOURCES, durationMs: effort.forMs(FOR_MS) }
      const rounds = await takeTurns(lockLibraries, effort, async (contender) => ({
        memory: await onMemory.flow(contender, flow),
        synced: await onDisk.flow(contender, flow),
      }))
      levels.push({ concurrency, rounds })
    }
    const disk = `fdatasync of this disk: ${syncMs().toFixed(2)} ms`
    return {
      tables: levels.map(({ concurrency, rounds }) => ({
        title: `${concurrency} at a time; ${disk}`,
        head: ['', 'leases/s', 'with fsync', 'of it', 'acquire p50, ms', 'with fsync'],
        rows: tableRows(rounds, [
          ...[({ memory }: Sample) => perSecond(memory), ({ synced }: Sample) => perSecond(synced)],
          part,
          ({ memory }) => memory.acquireMs.p50,
          ({ synced }) => synced.acquireMs.p50,
        ]),
      })),
      figures: levels.map(figureOf),
      wrong: levels.flatMap(({ concurrency, rounds }) =>
        oursMustNot(
          rounds,
          ({ synced }) => synced.failed + synced.stuck,
          (times) => `fsync, ${concurrency} at a time: ${times} free resources were not granted`,
        ),
      ),
    } satisfies Measured
  },
}

/** Beside the peer in the middle. */
function figureOf({ concurrency, rounds }: Level): Figure {
  const peers = rounds.contenders.filter(({ kind }) => kind === 'peer')
  const beside = median(peers.map((peer) => rounds.median(peer, part)))
  return {
    name: `Leases per second with \`appendfsync always\`, ${concurrency} at a time, of without`,
    measured: spread(rounds.values(oursIn(rounds), part)),
    ...{ beside: `peers ${shown(spread([beside]))}`, unit: 'x' },
  }
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
