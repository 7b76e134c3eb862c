/**
 * How a client tells a master what is left of its quarantine. A real server cannot lose one answer.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LockFleet } from '../../../src/redlock/fleet/fleet.ts'
import { Voter } from '../../../src/redlock/fleet/voter.ts'
import type { Connect, Master, MasterState } from '../../../src/redlock/wire/master.ts'
import { FakeClock } from '../../../src/testing/index.ts'

type Answer = (leftMs: unknown) => Promise<unknown>

/** A voter whose master says only what is left of its quarantine. */
class Quarantined {
  readonly clock = new FakeClock()
  readonly reports: unknown[] = []
  readonly voter: Voter
  #onState: (state: MasterState) => void = () => undefined
  readonly #master = { state: { status: 'enrolled' } as MasterState }

  constructor(answer: Answer = (leftMs) => Promise.resolve(leftMs)) {
    const connect: Connect = ({ onState }) => {
      this.#onState = onState
      const asked = (_script: unknown, _keys: unknown, [name, leftMs]: readonly unknown[]) => {
        this.reports.push([name, leftMs])
        return answer(leftMs)
      }
      return Object.assign(this.#master, { eval: asked }) as unknown as Master
    }
    const fleet = {
      settings: { clock: this.clock, connect },
      ...{ keys: { master: 'ns:master' }, quarantineMs: 1_000, clocks: {} },
      ...{ checkVotes: () => undefined, entered: () => undefined },
    } as unknown as LockFleet
    this.voter = new Voter(fleet, 0, 'redis://silent', { name: '', lua: '', sha1: '' })
  }

  get leftMs(): number {
    return this.voter.quarantineLeftMs
  }

  close(): void {
    this.#master.state = { status: 'closed' }
    this.#onState(this.#master.state)
  }
}

test('a report that is never answered is not the last one', async () => {
  let asked = 0
  const silent = new Quarantined((leftMs) =>
    ++asked < 3 ? new Promise(() => undefined) : Promise.resolve(leftMs),
  )
  silent.voter.quarantined('first', 1_000)
  for (let quarter = 0; quarter < 5; quarter++) {
    await silent.clock.advance(250)
  }
  expect(silent.reports).toEqual([750, 500, 250, 0].map((leftMs) => ['first', leftMs]))
  expect(silent.leftMs).toBe(0)
  silent.close()
})

describe('what is left of a quarantine', () => {
  let master = new Quarantined()

  beforeEach(() => {
    master = new Quarantined()
  })

  afterEach(() => {
    master.close()
  })

  test('is never more than was counted before, for the same quarantine', () => {
    master.voter.quarantined('first', 600)
    master.voter.quarantined('first', 900)
    expect(master.leftMs).toBe(600)
    master.voter.quarantined('first', 300)
    expect(master.leftMs).toBe(300)
  })

  test('begins anew with another quarantine', () => {
    master.voter.quarantined('first', 600)
    master.voter.quarantined('second', 900)
    expect(master.leftMs).toBe(900)
  })

  test('is zero when another client has counted it to its end', () => {
    master.voter.quarantined('first', 600)
    master.voter.quarantined('first', 0)
    expect(master.leftMs).toBe(0)
  })

  test('is more than zero until it is over', async () => {
    master.voter.quarantined('first', 100.5)
    await master.clock.advance(100)
    expect(master.leftMs).toBe(1)
    expect(master.reports.at(-1)).not.toEqual(['first', 0])
  })

  test('is reported to the master on demand, as before a client closes', async () => {
    master.voter.quarantined('first', 600)
    await master.clock.advance(100)
    await master.voter.report()
    expect(master.reports).toEqual([['first', 500]])
  })

  test('is not counted after the client is closed', async () => {
    master.voter.quarantined('first', 600)
    master.close()
    expect(master.leftMs).toBe(0)
    master.voter.quarantined('first', 600)
    expect(master.leftMs).toBe(0)
    await master.clock.advance(1_000)
    expect(master.reports).toEqual([])
  })
})

test('a master that goes on refusing is told of at every trial, and when it is over', async () => {
  const clock = new FakeClock()
  const told: (string | undefined)[] = []
  let refuses = true
  const connect: Connect = () =>
    ({
      state: { status: 'enrolled' },
      ask: ({ hear }: { hear: (master: object, result: unknown) => void }) => {
        const detail = 'OOM command not allowed'
        const refusal = { kind: 'failed', reason: 'error', detail, mayHaveRun: true }
        hear({}, refuses ? refusal : { kind: 'replied', reply: true })
      },
    }) as unknown as Master
  const fleet = {
    settings: { clock, connect, masterTimeoutMs: 100 },
    ...{ quarantineMs: 1_000, clocks: { suspendedMs: () => 0, isOutOfLine: () => false } },
    tell: ({ silence }: Voter) => told.push(silence?.status),
  } as unknown as LockFleet
  const voter = new Voter(fleet, 0, 'redis://full', { name: '', lua: '', sha1: '' })
  voter.suspect()
  await clock.advance(1_000)
  await clock.advance(1_000)
  refuses = false
  await clock.advance(1_000)
  voter.suspect() // One error, and it refuses nothing.
  await clock.advance(1_000)
  expect(told).toEqual(['refused', 'refused', 'refused', undefined])
})
