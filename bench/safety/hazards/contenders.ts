import { setTimeout as delay } from 'node:timers/promises'
import { sum } from '../../statistics.ts'
import type { RemoteClient } from '../bench.ts'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const CONTENDERS = 8
const LATENCY_MS = 20
const HOLD_MS = 5
const WAIT_MS = 10_000

export const contenders: Hazard = {
  name: 'contenders',
  title: 'Eight contenders all get their turn',
  scenario: `0 to ${LATENCY_MS} ms of random latency to each master, held for ${HOLD_MS} ms, retries for ${milliseconds(WAIT_MS)}`,
  async run(bench) {
    // The first one says that nobody has used these masters.
    const first = await bench.client({ waitMs: WAIT_MS })
    const others = Array.from({ length: CONTENDERS - 1 }, () => bench.client({ waitMs: WAIT_MS }))
    const clients = [first, ...(await Promise.all(others))]
    const latencyMs = (): number => Math.random() * LATENCY_MS
    for (const proxy of bench.masters.proxies) proxy.delay({ requestsMs: latencyMs })
    const startedAt = monotonicMs()
    const turns = await Promise.all(clients.map((client) => turn(client)))
    const tookMs = monotonicMs() - startedAt
    bench.happened(
      'random latency',
      sum(bench.masters.proxies.map((p) => p.counters.requests.delayed)),
    )
    const served = turns.filter(Boolean).length
    const evidence = `${served} of ${CONTENDERS} within ${milliseconds(tookMs)}`
    return served === CONTENDERS ? pass(evidence) : fail(evidence)
  },
}

async function turn(client: RemoteClient): Promise<boolean> {
  const acquired = await client.acquire('r', 5_000, WAIT_MS + 1_500)
  if (acquired.status !== 'held') return false
  await delay(HOLD_MS)
  await client.release(acquired.held)
  return true
}
