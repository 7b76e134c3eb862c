/**
 * Differential tests: a scenario runs once with plain BullMQ and once with ours, and what it found
 * out is compared with what it should be on each side. The rows of the compatibility page name
 * these tests by their titles.
 */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { Side, type Servers } from './side.ts'

/**
 * What a scenario found out. `gapMs` is compared between the sides, all else with what is expected.
 */
export type Facts = Readonly<Record<string, unknown>>

export type Scenario = (side: Side) => Promise<Facts>

/** A stall lasts a second or more; what is shorter is the noise of a busy machine. */
const MARGIN_MS = 250
const MEASUREMENTS = 3
/** The machine of a test may be busy; a master that is late is none that is away. */
const MASTER_TIMEOUT_MS = 1_000

let fleet: Fleet | undefined
let servers: Servers | undefined

/** To be called once in every file of differential tests. */
export function useSides(): void {
  beforeAll(async () => {
    const { urls, queue } = (fleet = await startFleet({ masters: 3 }))
    const namespace = `t${randomBytes(5).toString('hex')}`
    const lengths = { leaseMs: 5_000, maxLeaseMs: 6_000, masterTimeoutMs: MASTER_TIMEOUT_MS }
    const options = { masters: urls, namespace, ...lengths }
    const newRedlock = async (): Promise<Redlock> => {
      const redlock = new Redlock({ ...options, logger: silentLogger })
      await redlock.ready()
      return redlock
    }
    const redlock = await newRedlock()
    await redlock.bootstrap({ newFleet: true })
    servers = { connection: { host: queue.host, port: queue.port }, redlock, newRedlock }
  })
  afterAll(async () => {
    await servers?.redlock.close()
    await fleet?.close()
  })
}

/** Ours behaves as BullMQ does. With a `gapMs` among the facts, ours may be a little slower. */
export function same(title: string, scenario: Scenario, expected: Facts): void {
  compare(title, scenario, { bullmq: expected, ours: expected })
}

/** Ours behaves otherwise, in the way that the page says. */
export function differs(
  title: string,
  scenario: Scenario,
  expected: { readonly bullmq: Facts; readonly ours: Facts },
): void {
  compare(title, scenario, expected)
}

/** Works with BullMQ; ours throws an error that says what to do instead. */
export function refused(title: string, scenario: Scenario, message: RegExp): void {
  test.concurrent(title, async () => {
    expect(await factsOf('bullmq', scenario)).not.toHaveProperty('threw')
    expect(await factsOf('ours', scenario)).toEqual({
      threw: expect.stringMatching(message) as string,
    })
  })
}

/** What BullMQ has no counterpart for. */
export function ours(title: string, scenario: Scenario, expected: Facts): void {
  test.concurrent(title, async () => {
    expect(await factsOf('ours', scenario)).toEqual(expected)
  })
}

/** As `same`, but with nothing beside it: for scenarios that start processes. */
export function sameAlone(title: string, scenario: Scenario, expected: Facts): void {
  differsAlone(title, scenario, { bullmq: expected, ours: expected })
}

/** As `differs`, but with nothing beside it: other workers of a namespace look after its lines. */
export function differsAlone(
  title: string,
  scenario: Scenario,
  expected: { readonly bullmq: Facts; readonly ours: Facts },
): void {
  test(title, async () => {
    const bullmq = await factsOf('bullmq', scenario)
    expect({ bullmq, ours: await factsOf('ours', scenario) }).toEqual(expected)
  })
}

/**
 * As `same`, and the next job starts about as soon. Alone, and measured again where the machine was
 * busy.
 */
export function sameAndAsSoon(title: string, scenario: Scenario, expected: Facts): void {
  test(title, async () => {
    for (let measurement = 1; ; measurement++) {
      const { gapMs: theirs, ...bullmq } = await factsOf('bullmq', scenario)
      const { gapMs, ...found } = await factsOf('ours', scenario)
      expect({ bullmq, ours: found }).toEqual({ bullmq: expected, ours: expected })
      const limitMs = Number(theirs) + MARGIN_MS
      if (Number(gapMs) < limitMs) return
      if (measurement === MEASUREMENTS) expect(gapMs).toBeLessThan(limitMs)
    }
  })
}

function compare(
  title: string,
  scenario: Scenario,
  expected: { readonly bullmq: Facts; readonly ours: Facts },
): void {
  test.concurrent(title, async () => {
    if (servers === undefined) throw new Error('useSides() was not called in this file')
    // A machine that stands still for as long renews no lock of a job.
    const premise = { bystander: servers.connection, stallMs: MARGIN_MS }
    await undisturbed(premise, () => measure(scenario, expected))
  })
}

async function measure(
  scenario: Scenario,
  expected: { readonly bullmq: Facts; readonly ours: Facts },
): Promise<void> {
  for (let measurement = 1; ; measurement++) {
    const [bullmq, found] = await Promise.all([
      factsOf('bullmq', scenario),
      factsOf('ours', scenario),
    ])
    // Where BullMQ itself does otherwise, the machine did not keep the scenario's delays.
    if (measurement < MEASUREMENTS && !agree(bullmq, expected.bullmq)) continue
    expect({ bullmq, ours: found }).toEqual(expected)
    return
  }
}

function agree(found: Facts, expected: Facts): boolean {
  try {
    expect(found).toEqual(expected)
    return true
  } catch {
    return false
  }
}

/** A scenario that throws has found that out: the other side is still compared. */
async function factsOf(kind: 'bullmq' | 'ours', scenario: Scenario): Promise<Facts> {
  if (servers === undefined) throw new Error('useSides() was not called in this file')
  const side = new Side(kind, servers)
  try {
    return await scenario(side)
  } catch (error) {
    return { threw: error instanceof Error ? error.message : String(error) }
  } finally {
    await side.close()
  }
}
