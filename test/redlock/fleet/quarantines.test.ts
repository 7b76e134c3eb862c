/**
 * How a client tells a master what is left of its quarantine. A real server cannot lose one answer.
 */
import { expect, test } from 'vitest'
import { Quarantines } from '../../../src/redlock/fleet/quarantines.ts'
import type { Master } from '../../../src/redis/master.ts'
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
  const quarantines = new Quarantines(clock, 1_000, 'ns:master')
  quarantines.told(silent, 'first', 1_000)
  for (let quarter = 0; quarter < 5; quarter++) {
    await clock.advance(250)
  }
  expect(reports).toEqual([750, 500, 250, 0].map((leftMs) => ['first', leftMs]))
  expect(quarantines.leftMs(silent)).toBe(0)
  quarantines.close()
})
