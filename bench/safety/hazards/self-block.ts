import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const TTL_MS = 8_000
const FOREIGN_MS = 250
const WAIT_MS = 2_000

export const selfBlock: Hazard = {
  name: 'self-block',
  title: 'A split vote does not block its own retries',
  scenario: `one master is down and a foreign key is on two others for ${FOREIGN_MS} ms; retries for ${milliseconds(WAIT_MS)}, lease ${milliseconds(TTL_MS)}`,
  async run(bench) {
    const client = await bench.client({
      waitMs: WAIT_MS,
      masterTimeoutMs: 100,
      commandTimeoutMs: 200,
    })
    await bench.masters.proxy(4).refuse()
    await bench.occupy(client.key('r'), [0, 1], FOREIGN_MS)
    const acquired = await client.acquire('r', TTL_MS, TTL_MS - 500)
    bench.happened('a refusing master', bench.masters.proxy(4).counters.resets)
    if (acquired.status === 'held') return pass(`granted after ${milliseconds(acquired.tookMs)}`)
    if (acquired.status === 'pending') return fail(`no answer in ${milliseconds(acquired.limitMs)}`)
    return fail(`gave up after ${milliseconds(acquired.tookMs)} though no client held it`)
  },
}
