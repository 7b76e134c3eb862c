/** What work under a lease is told, and what it does to the lease. */
import { setTimeout as delay } from 'node:timers/promises'
import type { RemoteClient } from '../../peers/remote-client.ts'
import type { Bench } from '../bench.ts'
import { fail, milliseconds, pass, verdict, type Hazard } from '../hazard.ts'

const ROUTINE = { ttlMs: 2_000, limitMs: 5_000, error: 'insufficient funds' }

export const routineResult: Hazard = {
  title: "The routine's result is not masked",
  scenario: 'the keys are deleted under the work; it then returns a value, or throws its own error',
  async run(bench) {
    const client = await bench.client({ waitMs: 2_000 })
    const returned = await runUnder(bench, client, 'returns')
    const thrown = await runUnder(bench, client, 'throws', ROUTINE.error)
    const isReturned = returned.value === 'done'
    const isThrown = thrown.value.includes(ROUTINE.error)
    const value = isReturned ? 'value passed on' : `value lost: ${returned.value}`
    const error = isThrown ? 'error passed on' : `error masked by "${thrown.value.slice(0, 80)}"`
    return verdict(
      isReturned && isThrown,
      `${value} (${milliseconds(returned.tookMs)}); ${error} (${milliseconds(thrown.tookMs)})`,
    )
  },
}

async function runUnder(
  bench: Bench,
  client: RemoteClient,
  resource: string,
  error?: string,
): Promise<{ readonly value: string; readonly tookMs: number }> {
  const work = await client.startUsing(resource, ROUTINE.ttlMs)
  const deleted = await Promise.all(
    bench.masters.connections.map((redis) => redis.del(client.key(resource))),
  )
  bench.happened('deleted keys', deleted.filter((count) => count === 1).length)
  await client.soon('finish', { work, error })
  const finishedAt = performance.now()
  const tookMs = (): number => performance.now() - finishedAt
  while (tookMs() < ROUTINE.limitMs) {
    const { settled } = await client.soon('work', work)
    if (settled !== undefined) return { value: settled, tookMs: tookMs() }
    await delay(5)
  }
  return { value: 'it never settled', tookMs: tookMs() }
}

const NESTED = { ttlMs: 5_000, watchMs: 300 }

export const nestedUse: Hazard = {
  title: 'Nested use of a lock neither hangs nor ends it',
  scenario:
    'work under a lease takes the same resource again and releases that; then another client tries',
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    const startedAt = performance.now()
    const work = await client.startUsing('r', NESTED.ttlMs, true)
    const tookMs = performance.now() - startedAt
    const { inner } = await client.soon('work', work)
    const second = await other.acquire('r', NESTED.ttlMs, NESTED.watchMs)
    const { lostAt, settled } = await client.soon('work', work)
    await client.soon('finish', { work })
    const words = `the inner one was ${inner ?? 'not tried'} after ${milliseconds(tookMs)}`
    if (second.status !== 'held') return pass(`${words}; another client was refused`)
    const isTold = lostAt !== undefined || settled !== undefined
    return fail(`${words}; another client got it${isTold ? '' : ' while the work goes on'}`)
  },
}

const STOPPED = { ttlMs: 1_000, forMs: 2_500 }

export const suspendedHolder: Hazard = {
  title: 'A holder that was suspended knows that its lease is over',
  scenario: `the holder of a lease of ${milliseconds(STOPPED.ttlMs)} is stopped for ${milliseconds(STOPPED.forMs)}, another client gets it, and the first goes on`,
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    const first = await client.acquire('r', STOPPED.ttlMs, 3_000)
    if (first.status !== 'held') throw new Error(`not granted: ${first.status}`)
    client.process.signal('SIGSTOP')
    await delay(STOPPED.forMs)
    const second = await other.acquire('r', 10 * STOPPED.ttlMs, 3_000)
    client.process.signal('SIGCONT')
    bench.happened('a lease that another client got', second.status === 'held' ? 1 : 0)
    const isHeld = await client.soon('isHeld', first.held)
    const late = milliseconds(STOPPED.forMs - STOPPED.ttlMs)
    return isHeld
      ? fail(`it says that it holds it, ${late} after the end, while another client does`)
      : pass(`it says that the lease is over, ${late} after the end`)
  },
}
