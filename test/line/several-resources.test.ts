/** Jobs of several resources that have slots: one slot of each, at the line and at the lock. */
import { expect, test } from 'vitest'
import { seededRandom } from '../../workers/seeded-random.ts'
import { until, useFleet } from '../fixtures.ts'

interface Call {
  readonly nr: number
  readonly touches: readonly string[]
}

const SLOTS: Readonly<Record<string, number>> = {
  ...{ 'customer:1': 1, 'customer:2': 1, 'customer:3': 2 },
  ...{ 'plan:free': 2, 'plan:gold': 5, upstream: 3 },
}

const fixture = useFleet({ masters: 3 })

test.each([101])(
  'no resource has more holders than slots, and its jobs start in order (seed %i)',
  async (seed) => {
    const random = seededRandom(seed)
    const connection = { host: fixture.fleet.queue.host, port: fixture.fleet.queue.port }
    const queue = fixture.lockedQueue<Call>({
      connection,
      resource: ({ touches }) => touches,
      slots: ({ touches }) => Object.fromEntries(touches.map((name) => [name, SLOTS[name] ?? 1])),
    })
    const pick = (names: readonly string[]): string =>
      names[Math.floor(random() * names.length)] ?? ''
    const calls = Array.from({ length: 500 }, (_, nr) => {
      const all = [
        pick(['customer:1', 'customer:2', 'customer:3']),
        pick(['plan:free', 'plan:gold']),
        'upstream',
      ]
      return { nr, touches: all.slice(Math.floor(random() * 3)) }
    })
    await queue.addBulk(calls.map((data) => ({ name: 'call', data })))

    const held = new Map<string, number>()
    const most = new Map<string, number>()
    const last = new Map<string, number>()
    const faults: string[] = []
    let done = 0
    for (const redlock of [await fixture.redlock(), await fixture.redlock()]) {
      fixture.lockedWorker<Call>(
        async ({ data: { nr, touches } }) => {
          for (const name of touches) {
            const holders = (held.get(name) ?? 0) + 1
            held.set(name, holders)
            most.set(name, Math.max(most.get(name) ?? 0, holders))
            if (holders > (SLOTS[name] ?? 1)) faults.push(`${name} has ${holders} holders`)
            // With one slot the order of starts is that of adding.
            if (SLOTS[name] === 1 && nr < (last.get(name) ?? -1))
              faults.push(`${name}: ${nr} is late`)
            last.set(name, nr)
          }
          await new Promise((resolve) => setTimeout(resolve, 1 + random() * 3))
          for (const name of touches) held.set(name, (held.get(name) ?? 0) - 1)
          done++
        },
        { connection, redlock, resource: ({ data }) => data.touches, concurrency: 10 },
      )
    }
    await until('all jobs are done', () => done === calls.length)
    expect(faults).toEqual([])
    // The slots are used.
    expect(most.get('upstream')).toBe(SLOTS['upstream'])
  },
)
