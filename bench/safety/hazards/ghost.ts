import { setTimeout as delay } from 'node:timers/promises'
import { sum } from '../../statistics.ts'
import { fail, milliseconds, notApplicable, pass, type Hazard } from '../hazard.ts'

const TIMEOUT_MS = 50
const DELAY_MS = 300
const TTL_MS = 10_000
const SLOW = [0, 1, 2]

export const ghost: Hazard = {
  name: 'ghost',
  title: 'No ghost lease is left after a timeout',
  scenario: `requests to three masters take ${DELAY_MS} ms and the limit for a master is ${TIMEOUT_MS} ms (the library's, else ioredis' commandTimeout)`,
  async run(bench) {
    const client = await bench.client({
      masterTimeoutMs: TIMEOUT_MS,
      commandTimeoutMs: TIMEOUT_MS,
    })
    const other = await bench.other()
    const forwarded = (): number =>
      sum(SLOW.map((index) => bench.masters.proxy(index).counters.requests.bytes))
    for (const index of SLOW) bench.masters.proxy(index).delay({ requestsMs: DELAY_MS })
    const acquired = await client.acquire('r', TTL_MS, 5_000)
    const before = forwarded()
    if (acquired.status === 'held') {
      return notApplicable(`granted after ${milliseconds(acquired.tookMs)}: it did not time out`)
    }
    if (acquired.status === 'pending') return fail(`no answer in ${milliseconds(acquired.limitMs)}`)
    await delay(2 * DELAY_MS + 200)
    bench.happened('requests that arrived after the timeout', forwarded() - before)
    const ttlsMs = await bench.ttlsMs(client.key('r'))
    const ghosts = ttlsMs.filter((ttlMs) => ttlMs > 0)
    const refused = `refused after ${milliseconds(acquired.tookMs)}`
    if (ghosts.length === 0) return pass(`${refused}, nothing left`)
    const next = await other.acquire('r', TTL_MS, 2_000)
    const blocked = next.status === 'held' ? '' : '; the next client is blocked'
    const longest = milliseconds(Math.max(...ghosts))
    return fail(`${refused}, but ${ghosts.length} keys stay for ${longest}${blocked}`)
  },
}
