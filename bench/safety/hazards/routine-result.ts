import { setTimeout as delay } from 'node:timers/promises'
import type { Bench, RemoteClient } from '../bench.ts'
import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const TTL_MS = 2_000
const LIMIT_MS = 5_000
const BUSINESS_ERROR = 'insufficient funds'

export const routineResult: Hazard = {
  name: 'routine-result',
  title: "The routine's result is not masked",
  scenario: 'the keys are deleted under the work; it then returns a value, or throws its own error',
  async run(bench) {
    const client = await bench.client({ waitMs: 2_000 })
    const returned = await runUnder(bench, client, 'returns', undefined)
    const thrown = await runUnder(bench, client, 'throws', BUSINESS_ERROR)
    const value = returned.value === 'done' ? 'value passed on' : `value lost: ${returned.value}`
    const error = thrown.value.includes(BUSINESS_ERROR)
      ? 'error passed on'
      : `error masked by "${thrown.value.slice(0, 80)}"`
    const evidence = `${value} (${milliseconds(returned.tookMs)}); ${error} (${milliseconds(thrown.tookMs)})`
    const kept = returned.value === 'done' && thrown.value.includes(BUSINESS_ERROR)
    return kept ? pass(evidence) : fail(evidence)
  },
}

async function runUnder(
  bench: Bench,
  client: RemoteClient,
  resource: string,
  error: string | undefined,
): Promise<{ readonly value: string; readonly tookMs: number }> {
  const work = await client.startUsing(resource, TTL_MS)
  const deleted = await Promise.all(
    bench.masters.connections.map((redis) => redis.del(client.key(resource))),
  )
  bench.happened('deleted keys', deleted.filter((count) => count === 1).length)
  await client.finish(work, error)
  const finishedAt = performance.now()
  const tookMs = (): number => performance.now() - finishedAt
  while (tookMs() < LIMIT_MS) {
    const { settled } = await client.work(work)
    if (settled !== undefined) return { value: settled.value, tookMs: tookMs() }
    await delay(5)
  }
  return { value: 'it never settled', tookMs: tookMs() }
}
