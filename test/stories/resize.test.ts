/**
 * From one master to three, to five and back to three, by the words of docs/masters.md, while jobs
 * are added and run: none is lost or runs twice, none overlap, and the longest stop is short.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { LockedWorker, Redlock, silentLogger } from '../../src/index.ts'
import { granted, until, useFleet } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { cli } from '../tools/cli/run-cli.ts'

vi.setConfig({ testTimeout: 300_000 })

assertNoLeaks()
const fixture = useFleet({ masters: 5 })

const LEASE_MS = 3_000
const STOP_MS = LEASE_MS + 2_000
const CUSTOMERS = 8

interface Data {
  readonly customer: number
  readonly nr: number
}

const page = readFileSync(join(import.meta.dirname, '../../docs/masters.md'), 'utf8')
const [, shown = ''] = /^ +(npx bullmq-redlock resize [^]*?)\n +```$/m.exec(page) ?? []

/** The command of the page, for these masters. */
function resizeArgs(from: readonly string[], to: readonly string[]): readonly string[] {
  const words = shown.replace(/\\\n/g, ' ').split(/ +/)
  expect(words.slice(0, 3)).toEqual(['npx', 'bullmq-redlock', 'resize'])
  expect(words.filter((word) => word.startsWith('--'))).toEqual([
    ...['--master', '--to', '--to', '--to'],
  ])
  return [
    'resize',
    ...from.flatMap((url) => ['--master', url]),
    ...to.flatMap((url) => ['--to', url]),
    '--yes',
  ]
}

/** What the jobs did. */
class Ledger {
  readonly runs = new Map<number, number>()
  readonly #running = new Set<number>()
  overlaps = 0
  longestStopMs = 0
  #lastAt = performance.now()

  readonly run = async (data: Data): Promise<void> => {
    if (this.#running.has(data.customer)) this.overlaps++
    this.#running.add(data.customer)
    await delay(5)
    this.#running.delete(data.customer)
    this.runs.set(data.nr, (this.runs.get(data.nr) ?? 0) + 1)
    this.longestStopMs = Math.max(this.longestStopMs, performance.now() - this.#lastAt)
    this.#lastAt = performance.now()
  }
}

it('1 → 3 → 5 → 3 masters under load: nothing lost, twice or at the same time', async () => {
  const { fleet, namespace } = fixture
  const connection = { url: fleet.queue.url }
  const name = `q-${namespace}`
  const resource = ({ customer }: Data): string => `customer:${customer}`
  const terms = { ...{ namespace, logger: silentLogger }, leaseMs: LEASE_MS, maxLeaseMs: 30_000 }
  const first = fixture.closing(new Redlock({ ...terms, masters: fleet.urls.slice(0, 1) }))
  await first.bootstrap({ newFleet: true })
  const ledger = new Ledger()

  /** A deploy: the new process starts before the old one ends. */
  let running: { redlock: Redlock; worker: LockedWorker<Data> } | undefined
  const deploy = async (redlock: Redlock): Promise<void> => {
    await redlock.ready()
    const worker = new LockedWorker<Data>(name, ({ data }) => ledger.run(data), {
      ...{ connection, redlock, concurrency: CUSTOMERS },
      resource: ({ data }) => resource(data),
    })
    worker.on('error', () => undefined)
    await worker.waitUntilReady()
    const old = running
    running = { redlock, worker }
    await old?.worker.drain({ timeoutMs: 10_000 })
    await old?.redlock.close()
  }
  fixture.defer(async () => {
    await running?.worker.close()
    await running?.redlock.close()
  })
  const masters = (count: number): readonly string[] => fleet.urls.slice(0, count)
  await deploy(new Redlock({ ...terms, masters: masters(1) }))

  const queue = fixture.lockedQueue<Data>({ connection, resource }, name)
  let added = 0
  const stop = new AbortController()
  const adding = (async () => {
    while (!stop.signal.aborted) {
      await queue.add('post', { customer: added % CUSTOMERS, nr: added })
      added++
      await delay(10)
    }
  })()

  for (const [from, to] of [
    [1, 3],
    [3, 5],
    [5, 3],
  ] as const) {
    await deploy(
      new Redlock({ ...terms, masters: masters(to), previous: { masters: masters(from) } }),
    )
    await delay(500)
    const env = { BULLMQ_REDLOCK_NAMESPACE: namespace, BULLMQ_REDLOCK_TIMEOUT_MS: '5000' }
    const said = await cli(resizeArgs(masters(from), masters(to)), { env })
    expect(said.err).toContain('No lease is granted until those that are held are over')
    expect(said.code).toBe(0)
    expect(said.out).toContain(`${to} of ${to} masters vote`)
    const before = ledger.runs.size
    await until('jobs run again', () => ledger.runs.size > before + 50)
    expect(running?.redlock.status().masters).toHaveLength(to)
    await deploy(new Redlock({ ...terms, masters: masters(to) }))
  }
  stop.abort()
  await adding
  await until('all have run', () => ledger.runs.size === added)
  const twice = [...ledger.runs.values()].filter((runs) => runs > 1).length
  const { overlaps, longestStopMs } = ledger
  console.log(JSON.stringify({ added, twice, overlaps, longestStopMs: Math.round(longestStopMs) }))
  expect({ twice, overlaps }).toEqual({ twice: 0, overlaps: 0 })
  expect(longestStopMs).toBeLessThan(STOP_MS)
  expect(await queue.getFailedCount()).toBe(0)
  await granted(running?.redlock ?? first, 'free')
})
