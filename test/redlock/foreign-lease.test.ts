/** A lease belongs to the Redlock that granted it. */
import { expect, test } from 'vitest'
import { granted, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 3 })

test('a Redlock does not hand over the lease of another one', async () => {
  const [mine, theirs] = [await fixture.redlock(), await fixture.redlock()]
  const lease = await granted(theirs, 'r')
  expect(() => mine.handOver(lease)).toThrow('a lease of this Redlock')
  expect(lease.remainingMs()).toBeGreaterThan(0)
  await lease.release()
})
