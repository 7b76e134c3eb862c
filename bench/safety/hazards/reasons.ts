import type { Acquired } from '../bench.ts'
import { fail, milliseconds, pass, TUNED, TUNED_WORDS, type Hazard } from '../hazard.ts'

const LIMIT_MS = 12_000

export const reasons: Hazard = {
  name: 'reasons',
  title: 'The caller can tell "taken" from "unreachable"',
  scenario:
    'another client holds it; then three of five masters refuse connections (by class, code or documented field)',
  async run(bench) {
    const other = await bench.other()
    const client = await bench.client()
    await other.acquire('r', 20_000, 3_000)
    const taken = await client.acquire('r', 5_000, 3_000)
    await Promise.all([2, 3, 4].map((index) => bench.masters.proxy(index).refuse()))
    const unreachable = await client.acquire('r2', 5_000, LIMIT_MS)
    bench.happened('reset connections', bench.masters.proxy(2).counters.resets)
    const evidence = `taken: ${describe(taken)}; unreachable: ${describe(unreachable)}`
    if (tells(taken, 'taken') && tells(unreachable, 'unreachable')) return pass(evidence)
    if (unreachable.status !== 'pending') return fail(evidence)
    const tuned = await bench.client(TUNED)
    const sooner = await tuned.acquire('r3', 5_000, 3_000)
    return fail(`${evidence} (${TUNED_WORDS}: ${describe(sooner)})`)
  },
}

function tells(acquired: Acquired, reason: string): boolean {
  return acquired.status === 'refused' && acquired.reason === reason
}

function describe(acquired: Acquired): string {
  if (acquired.status === 'pending') return `no answer in ${milliseconds(acquired.limitMs)}`
  if (acquired.status === 'held') return 'granted'
  const name = acquired.message.slice(0, acquired.message.indexOf(':'))
  return `${name}, told as ${acquired.reason}, after ${milliseconds(acquired.tookMs)}`
}
