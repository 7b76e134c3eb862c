/**
 * Several fleets as one lock service, and a change of them under load: no resource is trusted in
 * two cells at once.
 */
import { Redis } from 'ioredis'
import { describe, expect, test, vi } from 'vitest'
import {
  LeaseLostError,
  RedlockCells,
  silentLogger,
  type AcquireOptions,
  type Lease,
  type RedlockCellsOptions,
} from '../../../src/index.ts'
import { keyspace } from '../../../src/redlock/keyspace.ts'
import { QuorumLease } from '../../../src/redlock/quorum-lease.ts'
import { cellOf } from '../../../src/redlock/cells/placement.ts'
import { until, useFleet } from '../../fixtures.ts'

const fixture = useFleet({ masters: 6, queue: false })

interface Spread {
  readonly activeCells?: readonly string[]
  readonly previousCells?: readonly string[]
}

/** Two masters are a cell: small, but one that is gone leaves no quorum. */
async function openCells(spread: Spread = {}): Promise<RedlockCells> {
  const [a1, a2, b1, b2, c1, c2] = fixture.fleet.urls as [
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  const cells = new RedlockCells({
    cells: { a: [a1, a2], b: [b1, b2], c: [c1, c2] },
    leaseMs: 2_000,
    maxLeaseMs: 3_000,
    // Two masters are a quorum of two: a busy machine must not cost one of them.
    masterTimeoutMs: 1_000,
    namespace: fixture.namespace,
    logger: silentLogger,
    ...spread,
  })
  fixture.defer(() => cells.close())
  await cells.ready()
  for (const cell of cells.cells.values()) {
    if (cell.status().masters.some(({ state }) => state === 'quarantined'))
      await cell.bootstrap({ newFleet: true, confirmed: true })
  }
  return cells
}

const STEPS: readonly [Spread, Spread, Spread] = [
  { activeCells: ['a', 'b'] },
  { activeCells: ['a', 'b', 'c'], previousCells: ['a', 'b'] },
  { activeCells: ['a', 'b', 'c'] },
]

/** One that lives in `from` at first and in `to` in the end. */
function resourceFrom(from: string, to: string): string {
  for (let index = 0; ; index++) {
    const name = `customer:${index}`
    if (cellOf(name, ['a', 'b']) === from && cellOf(name, ['a', 'b', 'c']) === to) return name
  }
}

async function leaseOn(cells: RedlockCells, resource: string): Promise<Lease> {
  const outcome = await cells.tryAcquire(resource)
  if (outcome.status !== 'granted') throw new Error(JSON.stringify(outcome))
  return outcome.lease
}

describe('cells', () => {
  test('hold each resource in the cell that its name says', async () => {
    const cells = await openCells()
    for (const name of ['customer:1', 'customer:2', 'customer:3', 'customer:4', 'customer:5']) {
      await using lease = await cells.acquire(name)
      expect(lease.remainingMs()).toBeGreaterThan(0)
      expect((await cells.tryAcquire(name)).status).toBe('taken')
      const holding = [...cells.status()].filter(([, { leases }]) => leases > 0)
      expect(holding.map(([cell]) => cell)).toEqual([cells.cellOf(name)])
      expect((await cells.inspect(name)).holder).toBeDefined()
    }
  })

  test('take several resources that live together, and refuse others with the fix', async () => {
    const cells = await openCells()
    const names = ['{customer:7}:cart', '{customer:7}:invoice']
    await using lease = await cells.acquire(names)
    expect(lease.resources).toEqual(names)
    await expect(cells.tryAcquire(['customer:1', 'customer:2'])).rejects.toThrow(/in braces/)
  })

  test('lose only the resources of a cell that is gone', async () => {
    const cells = await openCells()
    await fixture.fleet.masters[2]?.kill()
    const lost = resourceFrom('b', 'b')
    await until('its cell is seen to be gone', async () => {
      return (await cells.tryAcquire(lost)).status === 'unreachable'
    })
    for (const kept of [resourceFrom('a', 'a'), resourceFrom('a', 'c')]) {
      await (await leaseOn(cells, kept)).release()
    }
    expect((await cells.probe('probe')).status).not.toBe('unreachable')
    await expect(cells.ready()).resolves.toBeDefined()
  })

  test('inspect a slot in the cell of its resource', async () => {
    const cells = await openCells()
    for (const name of ['gpu1', 'gpu2', 'gpu3', 'gpu4', 'gpu5', 'gpu6']) {
      const places = await Promise.all([1, 2].map(() => cells.acquire(name, { slots: 2 })))
      for (const { resource } of places) {
        expect((await cells.inspect(resource)).holder).toBeDefined()
        expect((await cells.tryAcquire(resource)).status).toBe('taken')
      }
      for (const place of places) await place.release()
    }
  })

  test('hand a lease over, and share one among nested calls', async () => {
    const cells = await openCells()
    const lease = await leaseOn(cells, 'customer:1')
    const next = await cells.handOver(lease)
    expect(next).toMatchObject({ status: 'granted' })
    if (next.status === 'granted') {
      expect(next.lease.fencingToken).toBeGreaterThan(lease.fencingToken)
      await next.lease.release()
    }
    await cells.using('customer:1', {}, (outer) =>
      cells.using('customer:1', {}, (inner) => {
        expect(inner).toBe(outer)
      }),
    )
  })

  test('refuse options that cannot be right', () => {
    const some = { a: ['redis://127.0.0.1:1'] }
    expect(() => new RedlockCells({ cells: {} })).toThrow(/`cells`/)
    const misspelt = { cells: some, activecells: ['a'] } as RedlockCellsOptions
    expect(() => new RedlockCells(misspelt)).toThrow(
      'There is no option `activecells`. Is it `activeCells`?',
    )
    expect(() => new RedlockCells({ cells: some, activeCells: ['b'] })).toThrow(
      /`activeCells`.*\(a\)/,
    )
    expect(() => new RedlockCells({ cells: some, previousCells: [] })).toThrow(/`previousCells`/)
  })
})

describe('while cells change', () => {
  const moving = resourceFrom('a', 'c')

  test('a duration in the place of the options is refused, also where a resource moves', async () => {
    const cells = await openCells(STEPS[1])
    const duration = 5_000 as AcquireOptions
    await expect(cells.tryAcquire(moving, duration)).rejects.toThrow('`5000` (number)')
    await expect(cells.acquire(moving, duration)).rejects.toThrow('`5000` (number)')
  })

  test.each([
    [1, 2],
    [2, 1],
    [2, 3],
    [3, 2],
    [2, 2],
  ] as const)(
    'a lease of step %i keeps step %i out, and tokens increase from one to the other',
    async (one, other) => {
      const holder = await openCells(STEPS[one - 1])
      const next = await openCells(STEPS[other - 1])
      const lease = await leaseOn(holder, moving)
      expect((await next.tryAcquire(moving)).status).toBe('taken')
      expect(await lease.extend()).toMatchObject({ status: 'extended' })
      expect((await next.tryAcquire(moving)).status).toBe('taken')
      expect((await next.inspect(moving)).holder).toBeDefined()
      await lease.release()
      const later = await leaseOn(next, moving)
      expect(later.fencingToken).toBeGreaterThan(lease.fencingToken)
      await later.release()
    },
  )

  test('tokens increase along the whole move, in every order of arrivals', async () => {
    const steps = await Promise.all(STEPS.map((step) => openCells(step)))
    const tokens: number[] = []
    for (const step of [1, 2, 1, 2, 2, 1, 2, 3, 2, 3, 3, 2, 3]) {
      const cells = steps[step - 1]
      if (cells === undefined) throw new Error('There are three steps')
      await using lease = await leaseOn(cells, moving)
      tokens.push(lease.fencingToken)
    }
    expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y))
  })

  test('tokens increase also where the counters of one cell are ahead of the other', async () => {
    const [first, both] = await Promise.all([openCells(STEPS[0]), openCells(STEPS[1])])
    const aheadUs = (Date.now() + 700) * 1000
    for (const url of fixture.fleet.urls.slice(4)) {
      const redis = new Redis(url)
      await redis.set(keyspace(fixture.namespace).fence(moving), aheadUs, 'PX', 60_000)
      redis.disconnect()
    }
    const tokens: number[] = []
    for (const cells of [first, both, first, both]) {
      await using lease = await leaseOn(cells, moving)
      tokens.push(lease.fencingToken)
    }
    expect(tokens[1]).toBeGreaterThan(aheadUs)
    expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y))
  })

  test('releases both halves where the two cells reach no common token', async () => {
    const cells = await openCells(STEPS[1])
    const redises = fixture.fleet.urls.map((url) => new Redis(url))
    const keyOf = keyspace(fixture.namespace)
    for (const redis of redises.slice(4)) {
      await redis.set(keyOf.fence(moving), (Date.now() + 700) * 1000, 'PX', 60_000)
    }
    // Its keys are gone before it could take the larger token.
    const raise = vi.spyOn(QuorumLease.prototype, 'raise').mockResolvedValue(false)
    try {
      expect(await cells.tryAcquire(moving)).toMatchObject({ status: 'split' })
      expect(raise).toHaveBeenCalledOnce()
    } finally {
      raise.mockRestore()
    }
    const keys = await Promise.all(redises.map((redis) => redis.exists(keyOf.lease(moving))))
    for (const redis of redises) redis.disconnect()
    expect(keys).toEqual([0, 0, 0, 0, 0, 0])
  })

  test('acquires a resource that stays in its cell only', async () => {
    const cells = await openCells(STEPS[1])
    await using lease = await cells.acquire(resourceFrom('a', 'a'))
    expect(lease.remainingMs()).toBeGreaterThan(0)
    expect([...cells.status()].map(([, { leases }]) => leases)).toEqual([1, 0, 0])
  })

  test('a lease in two cells is lost when it is lost in one of them', async () => {
    const cells = await openCells(STEPS[1])
    const lease = await leaseOn(cells, moving)
    expect([...cells.status()].map(([, { leases }]) => leases)).toEqual([1, 0, 1])
    await cells.cells.get('a')?.close()
    expect(lease.remainingMs()).toBe(0)
    expect(() => {
      lease.assertHeld()
    }).toThrow(LeaseLostError)
    await expect(lease.extend()).rejects.toThrow(LeaseLostError)
    await lease.release()
  })

  test('releases in one cell what the other refuses', async () => {
    const final = await openCells(STEPS[2])
    const cells = await openCells(STEPS[1])
    const holder = await leaseOn(final, moving)
    expect((await cells.tryAcquire(moving)).status).toBe('taken')
    expect([...cells.status()].map(([, { leases }]) => leases)).toEqual([0, 0, 0])
    await holder.release()
    await (await cells.acquire(moving, { waitMs: 1_000 })).release()
  })

  test.each(['a', 'c'])(
    'a hand over that fails in cell %s releases the other half as well',
    async (dead) => {
      const cells = await openCells(STEPS[1])
      const outcome = await cells.tryAcquire(moving, { autoExtend: true })
      if (outcome.status !== 'granted') throw new Error(JSON.stringify(outcome))
      const masters = fixture.fleet.masters.slice(...(dead === 'a' ? [0, 2] : [4, 6]))
      await Promise.all(masters.map((master) => master.kill()))
      // Another length, so that the masters are asked.
      const next = await cells.handOver(outcome.lease, { leaseMs: 1_500, autoExtend: true })
      expect(next.status).toBe('unreachable')
      expect([...cells.status()].map(([, { leases }]) => leases)).toEqual([0, 0, 0])
      const left = cells.cells.get(dead === 'a' ? 'c' : 'a')
      expect((await left?.inspect(moving))?.holder).toBeUndefined()
    },
  )

  test.each(['a', 'c'])('releases the other half when the one in cell %s is lost', async (lost) => {
    const cells = await openCells(STEPS[1])
    const lease = await leaseOn(cells, moving)
    await cells.cells.get(lost)?.close()
    await expect(cells.handOver(lease)).rejects.toThrow(LeaseLostError)
    expect([...cells.status()].map(([, { leases }]) => leases)).toEqual([0, 0, 0])
    await cells.close()
  })

  test('a bad option of a hand over ends nothing', async () => {
    const cells = await openCells(STEPS[1])
    const lease = await leaseOn(cells, moving)
    await expect(cells.handOver(lease, { leaseMs: 1 })).rejects.toThrow(TypeError)
    expect(lease.remainingMs()).toBeGreaterThan(0)
    await lease.release()
  })

  test('a lease in two cells is handed over in both, with slots as without', async () => {
    const cells = await openCells(STEPS[1])
    const lease = await leaseOn(cells, moving)
    const next = await cells.handOver(lease)
    expect(next.status).toBe('granted')
    if (next.status !== 'granted') return
    expect(next.lease.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect((await cells.tryAcquire(moving)).status).toBe('taken')
    await next.lease.release()
    const places = await Promise.all([1, 2].map(() => cells.tryAcquire(moving, { slots: 2 })))
    const third = await cells.tryAcquire(moving, { slots: 2 })
    expect([...places.map(({ status }) => status), third.status]).toContain('taken')
    for (const place of places) if (place.status === 'granted') await place.lease.release()
  })
})
