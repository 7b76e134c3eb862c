import type { Bench, RemoteClient } from '../bench.ts'
import {
  fail,
  milliseconds,
  notApplicable,
  pass,
  TUNED,
  TUNED_WORDS,
  type Cell,
  type Hazard,
} from '../hazard.ts'

const TTL_MS = 10_000
const LIMIT_MS = 12_500

export const refusingMinority: Hazard = {
  name: 'refusing-minority',
  title: 'One refusing master does not end mutual exclusion',
  scenario: `one of five masters refuses connections, lease ${milliseconds(TTL_MS)}, every setting the library's default`,
  async run(bench) {
    const first = await measure(bench, await bench.client(), 'r')
    if (first.verdict !== 'FAIL') return first
    await bench.masters.proxy(4).pass()
    const tuned = await measure(bench, await bench.client(TUNED), 'r2')
    return fail(`${first.evidence} (${TUNED_WORDS}: ${tuned.evidence})`)
  },
}

async function measure(bench: Bench, client: RemoteClient, resource: string): Promise<Cell> {
  const other = await bench.other()
  await bench.masters.proxy(4).refuse()
  const acquired = await client.acquire(resource, TTL_MS, LIMIT_MS)
  bench.happened('reset connections', bench.masters.proxy(4).counters.resets)
  if (acquired.status === 'pending') {
    return notApplicable(`nothing was granted in ${milliseconds(acquired.limitMs)}`)
  }
  const after = `after ${milliseconds(acquired.tookMs)}`
  if (acquired.status === 'refused') return notApplicable(`refused ${after}`)
  const second = await other.acquire(resource, TTL_MS, 3_000)
  const isHeld = await client.isHeld(acquired.held)
  if (second.status === 'held' && isHeld) {
    return fail(`granted ${after} and a second client too, while the first says it holds it`)
  }
  return pass(`granted ${after}, a second client was ${second.status}`)
}
