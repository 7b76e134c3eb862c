import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import { forkProgram } from '../support/programs.ts'

const fixture = useFleet({ masters: 5 })
const LEASE_MS = 2_000

interface Entered {
  readonly entered: string
  readonly fencingToken: number
}

/** Resolves when the process takes jobs. */
async function startWorker(
  hang: boolean,
  entered: (message: Entered) => void,
): Promise<ChildProcess> {
  const setup = {
    queue: fixture.namespace,
    connection: { host: fixture.fleet.queue.host, port: fixture.fleet.queue.port },
    masters: fixture.fleet.urls,
    namespace: fixture.namespace,
    leaseMs: LEASE_MS,
    hang,
  }
  const child = forkProgram(new URL('crash-child.ts', import.meta.url), [JSON.stringify(setup)])
  fixture.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
  let ready = false
  child.on('message', (message) => {
    if (message === 'ready') ready = true
    else entered(message as Entered)
  })
  await until('the worker is ready', () => ready)
  return child
}

test(
  "after kill -9 in a step the interrupted job runs again when the lease is over, and the customer's others follow in order",
  () =>
    // Its time is promised for a machine that keeps time.
    fixture.undisturbed(crash),
  300_000,
)

async function crash(): Promise<void> {
  await fixture.redlock({ maxLeaseMs: 10_000 })
  const queue = fixture.plainQueue<{ customer: number }>()
  const first: Entered[] = []
  const doomed = await startWorker(true, (message) => first.push(message))
  const interrupted = (await queue.add('charge', { customer: 1 })).id
  await until('the first job is in its step', () => first.length === 1)
  const others = [
    (await queue.add('charge', { customer: 1 })).id,
    (await queue.add('charge', { customer: 1 })).id,
  ]
  const after: (Entered & { readonly at: number })[] = []
  await startWorker(false, (message) => after.push({ ...message, at: performance.now() }))
  await until('the others wait', async () => (await queue.getDelayedCount()) === 2)
  const killedAt = performance.now()
  doomed.kill('SIGKILL')
  await until('all are done', async () => (await queue.getCompletedCount()) === 3)

  expect(after.map(({ entered }) => entered)).toEqual([interrupted, ...others])
  const waitedMs = after.map(({ at }) => Math.round(at - killedAt))
  console.log(`lease ${LEASE_MS} ms: jobs 1, 2, 3 started ${waitedMs.join(', ')} ms after kill -9`)
  expect(waitedMs[1]).toBeLessThanOrEqual(LEASE_MS + 2_000)
  const tokens = [...first, ...after].map(({ fencingToken }) => fencingToken)
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  expect(new Set(tokens).size).toBe(4)
}
