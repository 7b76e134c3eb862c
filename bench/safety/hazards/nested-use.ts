import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const TTL_MS = 5_000
const WATCH_MS = 300

export const nestedUse: Hazard = {
  name: 'nested-use',
  title: 'Nested use of a lock neither hangs nor ends it',
  scenario:
    'work under a lease takes the same resource again and releases that; then another client tries',
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    const startedAt = performance.now()
    const work = await client.startUsing('r', TTL_MS, { nested: true })
    const tookMs = performance.now() - startedAt
    const { inner } = await client.work(work)
    const second = await other.acquire('r', TTL_MS, WATCH_MS)
    const { lostAt, settled } = await client.work(work)
    await client.finish(work)
    const words = `the inner one was ${inner ?? 'not tried'} after ${milliseconds(tookMs)}`
    if (second.status !== 'held') return pass(`${words}; another client was refused`)
    const isTold = lostAt !== undefined || settled !== undefined
    return fail(`${words}; another client got it${isTold ? '' : ' while the work goes on'}`)
  },
}
