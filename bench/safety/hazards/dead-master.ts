/** One of five masters is gone, in the two ways in which a server can be gone. */
import type { Acquired, Bench } from '../bench.ts'
import { fail, milliseconds, pass, TUNED, TUNED_WORDS, type Cell, type Hazard } from '../hazard.ts'

/** Far more than a loopback round trip on a busy machine, far less than anybody's timeout. */
const BOUND_MS = 500
const LIMIT_MS = 6_000

export const blackHole: Hazard = {
  name: 'black-hole',
  title: `One black-holed master costs at most ${BOUND_MS} ms`,
  scenario: 'one of five masters accepts connections and never answers',
  run: (bench) =>
    measure(bench, async (lost) => {
      if (lost === undefined) await bench.masters.proxy(4).drop()
      else bench.happened('swallowed requests', bench.masters.proxy(4).counters.requests.lost)
    }),
}

export const refusingMaster: Hazard = {
  name: 'refusing-master',
  title: `One refusing master costs at most ${BOUND_MS} ms`,
  scenario: 'one of five masters refuses connections',
  run: (bench) =>
    measure(bench, async (lost) => {
      if (lost === undefined) await bench.masters.proxy(4).refuse()
      else bench.happened('reset connections', bench.masters.proxy(4).counters.resets)
    }),
}

/** `fault` injects when it is given nothing, and proves itself when it is given the outcome. */
async function measure(bench: Bench, fault: (outcome?: Acquired) => Promise<void>): Promise<Cell> {
  const client = await bench.client()
  await fault()
  const outcome = await client.acquire('r', 10_000, LIMIT_MS)
  await fault(outcome)
  if (isPrompt(outcome)) return pass(describe(outcome))
  await bench.masters.proxy(4).pass()
  const tuned = await bench.client(TUNED)
  await fault()
  const second = await tuned.acquire('r2', 10_000, LIMIT_MS)
  return fail(`${describe(outcome)} (${TUNED_WORDS}: ${describe(second)})`)
}

function isPrompt(outcome: Acquired): boolean {
  return outcome.status === 'held' && outcome.tookMs <= BOUND_MS
}

function describe(outcome: Acquired): string {
  if (outcome.status === 'pending') return `pending after ${milliseconds(outcome.limitMs)}`
  const what = outcome.status === 'held' ? 'granted' : 'refused'
  return `${what} after ${milliseconds(outcome.tookMs)}`
}
