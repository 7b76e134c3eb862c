/**
 * How a client tells a master what is left of its quarantine. A real server cannot lose one answer.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Quarantines } from '../../../src/redlock/fleet/quarantines.ts'
import type { Master } from '../../../src/redlock/wire/master.ts'
import { FakeClock } from '../../../src/testing/index.ts'

test('a report that is never answered is not the last one', async () => {
  const clock = new FakeClock()
  const reports: unknown[] = []
  const silent = {
    eval: (_script: unknown, _keys: unknown, [name, leftMs]: readonly unknown[]) => {
      reports.push([name, leftMs])
      return reports.length < 3 ? new Promise(() => undefined) : Promise.resolve(leftMs)
    },
  } as unknown as Master
  const quarantines = new Quarantines(clock, 1_000, 'ns:master', () => undefined)
  quarantines.reported(silent, 'first', 1_000)
  for (let quarter = 0; quarter < 5; quarter++) {
    await clock.advance(250)
  }
  expect(reports).toEqual([750, 500, 250, 0].map((leftMs) => ['first', leftMs]))
  expect(quarantines.leftMs(silent)).toBe(0)
  quarantines.close()
})

describe('what is left of a quarantine', () => {
  const clock = new FakeClock()
  const reports: (readonly [name: unknown, leftMs: unknown])[] = []
  const master = {
    eval: (_script: unknown, _keys: unknown, [name, leftMs]: readonly unknown[]) => {
      reports.push([name, leftMs])
      return Promise.resolve(leftMs)
    },
  } as unknown as Master
  let quarantines = new Quarantines(clock, 1_000, 'ns:master', () => undefined)

  beforeEach(() => {
    reports.length = 0
    quarantines = new Quarantines(clock, 1_000, 'ns:master', () => undefined)
  })

  afterEach(() => {
    quarantines.close()
  })

  test('is never more than was counted before, for the same quarantine', () => {
    quarantines.reported(master, 'first', 600)
    quarantines.reported(master, 'first', 900)
    expect(quarantines.leftMs(master)).toBe(600)
    quarantines.reported(master, 'first', 300)
    expect(quarantines.leftMs(master)).toBe(300)
  })

  test('begins anew with another quarantine', () => {
    quarantines.reported(master, 'first', 600)
    quarantines.reported(master, 'second', 900)
    expect(quarantines.leftMs(master)).toBe(900)
  })

  test('is zero when another client has counted it to its end', () => {
    quarantines.reported(master, 'first', 600)
    quarantines.reported(master, 'first', 0)
    expect(quarantines.leftMs(master)).toBe(0)
  })

  test('is more than zero until it is over', async () => {
    quarantines.reported(master, 'first', 100.5)
    await clock.advance(100)
    expect(quarantines.leftMs(master)).toBe(1)
    expect(reports.at(-1)).not.toEqual(['first', 0])
  })

  test('is reported to every master on demand, as before a client closes', async () => {
    quarantines.reported(master, 'first', 600)
    await clock.advance(100)
    await quarantines.report()
    expect(reports).toEqual([['first', 500]])
  })

  test('is not counted after the client is closed', async () => {
    quarantines.reported(master, 'first', 600)
    quarantines.close()
    expect(quarantines.leftMs(master)).toBe(0)
    quarantines.reported(master, 'first', 600)
    expect(quarantines.leftMs(master)).toBe(0)
    await clock.advance(1_000)
    expect(reports).toEqual([])
  })
})
