/** What waits for deadlines is told of each once, not early and at most a millisecond late. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Deadlines, Expiring, leave } from '../src/clock.ts'
import { FakeClock } from '../src/testing/index.ts'

class Member extends Expiring {
  readonly expiredAt: number[] = []
  readonly #clock: FakeClock

  constructor(clock: FakeClock) {
    super()
    this.#clock = clock
  }

  expire(): void {
    this.expiredAt.push(this.#clock.now())
  }
}

const MEMBERS = 5
/** More lengths than empty lists are kept. */
const timeoutMs = fc.oneof(fc.constantFrom(10, 30), fc.integer({ min: 1, max: 40 }))
const who = fc.nat(MEMBERS - 1)
const step = fc.oneof(
  fc.record({ kind: fc.constant('joins' as const), who, ms: timeoutMs }),
  fc.record({ kind: fc.constant('leaves' as const), who, ms: fc.constant(0) }),
  fc.record({ kind: fc.constant('passes' as const), who, ms: fc.integer({ min: 1, max: 25 }) }),
)

test('each expires once for its latest deadline, unless it leaves', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const clock = new FakeClock()
      const deadlines = new Deadlines<Member>(clock)
      const members = Array.from({ length: MEMBERS }, () => new Member(clock))
      const due = new Map<Member, number>()
      const check = (): void => {
        for (const [member, endsAt] of due) {
          const [expiredAt, ...more] = member.expiredAt.splice(0)
          expect(more).toEqual([])
          if (expiredAt === undefined) expect(clock.now()).toBeLessThan(endsAt + 1)
          else {
            expect(expiredAt).toBeGreaterThanOrEqual(endsAt)
            expect(expiredAt).toBeLessThanOrEqual(endsAt + 1)
            due.delete(member)
          }
        }
        expect(members.flatMap(({ expiredAt }) => expiredAt)).toEqual([])
        expect(new Set(deadlines.members())).toEqual(new Set(due.keys()))
        expect(deadlines.members()).toHaveLength(due.size)
      }
      for (const { kind, who: index, ms } of steps) {
        const member = members[index]
        if (member === undefined) continue
        if (kind === 'joins') {
          deadlines.in(ms, member)
          due.set(member, clock.now() + ms)
        } else if (kind === 'leaves') {
          leave(member)
          due.delete(member)
        } else await clock.advance(ms)
        check()
      }
      await clock.advance(50)
      check()
      expect(due.size).toBe(0)
    }),
  )
})
