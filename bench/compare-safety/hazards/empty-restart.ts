import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const TTL_MS = 10_000
const FOREIGN_MS = 400

export const emptyRestart: Hazard = {
  name: 'empty-restart',
  title: 'A master that restarts empty lets no second holder in',
  scenario: `a lease of ${milliseconds(TTL_MS)} is on three of five masters and one of the three restarts without its data`,
  async run(bench) {
    const client = await bench.client({ waitMs: 0 })
    const key = client.key('r')
    await bench.occupy(key, [3, 4], FOREIGN_MS)
    const first = await client.acquire('r', TTL_MS, 3_000)
    if (first.status !== 'held') throw new Error(`not granted on three masters: ${first.status}`)
    await bench.until(
      async () => (await bench.ttlsMs(key)).slice(3).every((ttlMs) => ttlMs === 0),
      'the foreign keys are gone',
    )
    const before = await bench.master(2).pttl(key)
    await bench.servers[2]?.restart({ keepData: false })
    const other = await bench.other()
    const [, , afterMs] = await bench.ttlsMs(key)
    bench.happened('a key that was lost', before > 0 && afterMs === 0 ? 1 : 0)
    const leftMs = (await bench.ttlsMs(key))[0] ?? 0
    const second = await other.acquire('r', TTL_MS, 3_000)
    const isHeld = await client.isHeld(first.held)
    if (second.status === 'held' && isHeld) {
      return fail(`a second client got it with ${milliseconds(leftMs)} of the first's lease left`)
    }
    const what = second.status === 'pending' ? 'had no answer' : 'was refused'
    return pass(`the second client ${what}; ${milliseconds(leftMs)} of the first's lease left`)
  },
}
