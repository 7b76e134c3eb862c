/**
 * What waits for deadlines is told of each once, not early and at most a millisecond late. What
 * waits for the end of a turn runs then.
 */
import { spawnSync } from 'node:child_process'
import { stat } from 'node:fs/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Deadlines, Expiring, leave, systemClock, withinMs } from '../src/clock.ts'
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

test('the process stays alive for what waits, and not for a timer that rests', () => {
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = timers()
  const deadlines = new Deadlines<Member>(systemClock)
  const member = new Member(new FakeClock())
  for (let turn = 0; turn < 3; turn++) {
    deadlines.in(1_000, member)
    expect(timers()).toBe(before + 1)
    leave(member)
    expect(timers()).toBe(before)
  }
})

test('what fails at the end of a turn keeps nothing else from running', () => {
  const clock = new URL('../src/clock.ts', import.meta.url).href
  const program = `
    import { atEndOfTurn } from '${clock}'
    process.on('uncaughtException', ({ message }) => console.log('thrown: ' + message))
    atEndOfTurn(() => console.log('first'))
    atEndOfTurn(() => { throw new Error('second') })
    atEndOfTurn(() => console.log('third'))
  `
  const args = ['--import', 'tsx', '--input-type=module', '--eval', program]
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  expect(stdout.trim().split('\n').sort()).toEqual(['first', 'third', 'thrown: second'])
})

test('an answer that came in time counts after the process stood still', async () => {
  const answer = withinMs(systemClock, 50, stat(import.meta.filename))
  const until = performance.now() + 300
  while (performance.now() < until);
  expect(await answer).toBeDefined()
  expect(await withinMs(systemClock, 50, new Promise(() => undefined))).toBeUndefined()
})
