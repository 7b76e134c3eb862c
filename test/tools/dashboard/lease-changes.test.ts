/** What two looks tell: pure. */
import { expect, test } from 'vitest'
import { LeaseWatch, type LeaseChanges } from '../../../src/tools/dashboard/history.ts'
import type { LiveLease, LiveLeases } from '../../../src/tools/operator/live-leases.ts'

function lease(resource: string, freeInMs: number, holder = 'w1 (a…)'): LiveLease {
  return { resource, state: 'held', holder, fencingToken: 1, freeInMs, votes: 3 }
}

function look(leases: readonly LiveLease[], more: Partial<LiveLeases> = {}): LiveLeases {
  return { leases, quorum: 2, masters: 3, unreachable: [], truncated: false, ...more }
}

/** The last of several looks, one second apart. */
function after(...looks: readonly LiveLeases[]): LeaseChanges {
  const watch = new LeaseWatch()
  return looks.map((each, index) => watch.seen(each, index * 1_000, index)).at(-1) as LeaseChanges
}

test('a lease that runs to its end counts as expired, not as released', () => {
  const changes = after(
    look([lease('a', 2_500)]),
    look([lease('a', 1_500)]),
    look([lease('a', 500)]),
    look([]),
  )
  expect(changes.lapsed).toMatchObject([{ resource: 'a', holder: 'w1 (a…)', at: 3 }])
})

test('a lease that ends with time left counts as released', () => {
  expect(after(look([lease('a', 9_000)]), look([lease('a', 8_000)]), look([])).lapsed).toEqual([])
})

test('a lease that is extended and then ends counts as released', () => {
  const looks = [look([lease('a', 900)]), look([lease('a', 900)]), look([])]
  expect(after(...looks).lapsed).toEqual([])
})

test('the next holder of a resource is another lease', () => {
  const changes = after(look([lease('a', 9_000)]), look([lease('a', 9_000, 'w2 (b…)')]))
  expect(changes.lapsed).toEqual([])
})

test('a master that becomes unreachable ends no lease', () => {
  const unreachable = ['m1', 'm2'].map((master) => ({ master, problem: 'away' }))
  const changes = after(look([lease('a', 500)]), look([], { unreachable }), look([]))
  expect(changes).toMatchObject({ lapsed: [] })
  expect(after(look([]), look([], { unreachable })).unknown).toBe(
    'only 1 of 3 masters answer and 2 are needed',
  )
})

test('an incomplete list ends no lease', () => {
  const changes = after(look([lease('a', 500)]), look([], { truncated: true }))
  expect(changes).toMatchObject({ unknown: 'more leases than are looked at', lapsed: [] })
})
