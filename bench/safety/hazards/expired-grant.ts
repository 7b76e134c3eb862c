import { sum } from '../../statistics.ts'
import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const TTL_MS = 200
const DELAY_MS = 400

export const expiredGrant: Hazard = {
  name: 'expired-grant',
  title: 'A grant that comes too late is refused',
  scenario: `every master's reply takes ${DELAY_MS} ms and the lease lasts ${TTL_MS} ms`,
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    for (const proxy of bench.masters.proxies) proxy.delay({ repliesMs: DELAY_MS })
    const acquired = await client.acquire('r', TTL_MS, 5_000)
    bench.happened(
      'delayed replies',
      sum(bench.masters.proxies.map((p) => p.counters.replies.delayed)),
    )
    if (acquired.status === 'pending') return fail(`no answer in ${milliseconds(acquired.limitMs)}`)
    if (acquired.status === 'refused') return pass(`refused after ${milliseconds(acquired.tookMs)}`)
    const second = await other.acquire('r', TTL_MS, 2_000)
    const stillHeld = await client.isHeld(acquired.held)
    const left =
      acquired.remainingMs === undefined
        ? `granted, says ${stillHeld ? 'held' : 'not held'}`
        : `granted with ${milliseconds(acquired.remainingMs)} left`
    const both = second.status === 'held' ? 'a second client got it too' : 'no second client got it'
    return fail(`${left}; ${both}`)
  },
}
