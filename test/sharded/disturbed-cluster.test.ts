/**
 * A sharded queue while slots move between the four nodes of its cluster and a worker is killed:
 * nothing runs out of order, at once, twice or never.
 */
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { prefixesOf } from '../../src/sharded/placement.ts'
import { MAX_LEASE_MS, until } from '../fixtures.ts'
import { forkProgram } from '../support/programs.ts'
import { moveSlot } from '../support/redis-cluster.ts'
import { CUSTOMERS, type Charge } from './charge.ts'
import { useCluster } from './cluster.ts'
import type { Setup } from './worker-child.ts'

const fixture = useCluster()
const EACH = 160
const ADDED_AT_ONCE = 5
const WORK_MS = 8
/** Nodes tell each other once a second; of two moves in that time they may believe the older. */
const SETTLES_MS = 500
/** A job whose end waits for longer while its slot moves runs again. */
const LEASE_MS = 6_000
const keyOf = ({ customer, nr }: Charge): string => `${customer}${nr}`

interface Run {
  readonly key: string
  readonly customer: string
  readonly nr: number
  readonly by: 'child' | 'own'
  /** In which it began and ended among all that was told. */
  readonly from: number
  to: number
  hasEnded: boolean
}

test('order, overlaps, lost and twice are 0 while slots move and a worker dies', async () => {
  const runs: Run[] = []
  let clock = 0
  const begin = (data: Charge, by: Run['by']): Run => {
    const run = { key: keyOf(data), ...data, by, from: ++clock, to: Infinity, hasEnded: false }
    runs.push(run)
    return run
  }
  // On a busy machine a slot takes longer to move than ioredis tries by itself: 16 times.
  const connection = fixture.connect(1_000)
  const queue = fixture.queue({ connection })
  const redlock = await fixture.redlock({ leaseMs: LEASE_MS, masterTimeoutMs: 500 })
  await queue.waitUntilReady()
  const setup: Setup = {
    ...{ queue: queue.name, namespace: fixture.namespace, masters: fixture.fleet.urls },
    ...{ leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS, workMs: WORK_MS },
    nodes: fixture.nodes.map(({ host, port }) => ({ host, port })),
  }
  const child = forkProgram(new URL('worker-child.ts', import.meta.url), [JSON.stringify(setup)])
  const exited = once(child, 'exit')
  fixture.defer(async () => {
    child.kill('SIGKILL')
    await exited
  })
  child.on('message', (message: { readonly started?: Charge; readonly completed?: Charge }) => {
    if (message.started) begin(message.started, 'child')
    const { completed } = message
    if (completed === undefined) return
    const run = runs.findLast(({ key, by }) => by === 'child' && key === keyOf(completed))
    Object.assign(run ?? {}, { hasEnded: true, to: ++clock })
  })
  const total = CUSTOMERS.length * EACH
  const done = new AbortController()
  let moves = 0
  const moving = (async () => {
    const keys = prefixesOf('bull', 4).map((prefix) => `${prefix}:${queue.name}:meta`)
    for (; !done.signal.aborted; moves++) {
      await moveSlot(fixture.nodes, keys[moves % 4] ?? '')
      await new Promise((resolve) => setTimeout(resolve, SETTLES_MS))
    }
  })()
  const adding = (async () => {
    for (let first = 0; first < EACH; first += ADDED_AT_ONCE) {
      for (const customer of CUSTOMERS) {
        await queue.addBulk(
          Array.from({ length: ADDED_AT_ONCE }, (_, index) => ({
            name: 'charge',
            data: { customer, nr: first + index },
            opts: { jobId: `${customer}-${first + index}` },
          })),
        )
      }
    }
  })()
  await until('the child works', () => runs.some(({ hasEnded }) => hasEnded))
  for (let index = 0; index < 2; index++) {
    await fixture.worker(
      async ({ data }) => {
        const run = begin(data, 'own')
        await new Promise((resolve) => setTimeout(resolve, WORK_MS))
        Object.assign(run, { hasEnded: true, to: ++clock })
      },
      { redlock, concurrency: 4 },
    )
  }
  await until('a third has run', () => runs.length > total / 3)
  child.kill('SIGKILL')
  await exited
  const killedAt = ++clock
  for (const run of runs) if (run.by === 'child' && !run.hasEnded) run.to = killedAt
  await adding
  await until('all are done', async () => (await queue.getCompletedCount()) === total, 90_000)
  done.abort()
  await moving

  // Completed by the child, which died before it said so: nobody ran it again.
  for (const run of runs) run.hasEnded ||= runs.findLast(({ key }) => key === run.key) === run
  const ended = runs.filter(({ hasEnded }) => hasEnded)
  const counts = new Map<string, number>()
  for (const { key } of ended) counts.set(key, (counts.get(key) ?? 0) + 1)
  const found = { lost: total - counts.size, twice: 0, disorder: 0, overlaps: 0 }
  for (const count of counts.values()) if (count > 1) found.twice++
  for (const customer of CUSTOMERS) {
    const own = runs.filter((run) => run.customer === customer)
    for (const [index, run] of own.entries()) {
      const before = own[index - 1]
      if (before === undefined) continue
      if (before.to > run.from) found.overlaps++
      if (run.nr !== before.nr + (before.hasEnded ? 1 : 0)) found.disorder++
    }
  }
  console.log(`${runs.length} runs, ${moves} moves of slots: ${JSON.stringify(found)}`)
  expect(found).toEqual({ lost: 0, twice: 0, disorder: 0, overlaps: 0 })
  expect(moves).toBeGreaterThanOrEqual(8)
  expect(new Set(runs.map(({ by }) => by)).size).toBe(2)
}, 240_000)
