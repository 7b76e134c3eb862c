import type { Job } from 'bullmq'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Lease } from '../../src/index.ts'
import type { LockService } from '../../src/lock/lock-service.ts'
import type { Visit } from '../../src/worker/run/visits.ts'
import { Visits } from '../../src/worker/run/visits.ts'

const LINES = '["customer:1"]'
/** Of a job that was woken. */
const wokenIn = (visits: Visits, id: string, lines = LINES): Visit =>
  Object.assign(visits.fetched(id), { turn: 'woken', lines } as const)
const jobOf = (id: string): Job => ({ id, timestamp: 1 }) as never

/** A lease of which only the release counts. */
function leaseOf(): { readonly lease: Lease; readonly released: Promise<void> } {
  let resolve!: () => void
  const released = new Promise<void>((settle) => {
    resolve = settle
  })
  const release = (): Promise<void> => {
    resolve()
    return released
  }
  const own = { resources: ['customer:1'], remainingMs: () => 1_000, release }
  return { lease: own as never, released }
}

/** Job 1 of the line runs. */
function startedUnder(lease: Lease, visits: Visits): Visit {
  wokenIn(visits, '1')
  return Object.assign(visits.start(jobOf('1'), 'token', undefined), { lease })
}

const visitsWith = (handOver?: LockService['handOver']): Visits =>
  new Visits({ handOver } as LockService, {}, 50)

describe('the visit of a job', () => {
  test('is there for its last trip, once, and for no other run of the job', async () => {
    const visits = visitsWith()
    const job = jobOf('1')
    const fetched = wokenIn(visits, '1')
    const visit = visits.start(job, 'token', undefined)
    expect(visit).toBe(fetched)
    visits.done(visit, 1, false)
    visits.end(visit)
    expect(visits.ending(jobOf('1'))).toBeUndefined()
    expect(visits.ending(job)).toBe(visit)
    expect(visits.ending(job)).toBeUndefined()
    await visits.close()
  })

  test('is not stopped by the lost lock of an earlier run', () => {
    const visits = visitsWith()
    const visit = visits.start(jobOf('1'), 'token', undefined)
    const { startedAt = NaN } = visit
    visits.locksLost(['1'], startedAt - 1)
    expect(visit.stop.isAborted).toBe(false)
    visits.locksLost(['1'], startedAt)
    expect(visit.stop.isAborted).toBe(true)
  })

  test('waits until it starts, and not after', () => {
    const visits = visitsWith()
    const fetched = wokenIn(visits, '1')
    expect(visits.waiting('1')).toBe(fetched)
    visits.start(jobOf('1'), 'token', undefined)
    expect(visits.waiting('1')).toBeUndefined()
  })

  test('is forgotten when the job has ended without a word', () => {
    const visits = visitsWith()
    const job = jobOf('1')
    const visit = visits.start(job, 'token', undefined)
    visits.end(visit)
    expect(visits.ending(job)).toBeUndefined()
  })

  test('keeps no job waiting for its place when BullMQ ends it without its processor', async () => {
    const visits = visitsWith()
    const passed: string[] = []
    const fetchedIn = (id: string): Visit => {
      const done = (): void => void passed.push(id)
      return Object.assign(visits.fetched(id), { join: { earlier: Promise.resolve(), done } })
    }
    fetchedIn('a failed child')
    visits.ending(jobOf('a failed child'))
    fetchedIn('by hand')
    await visits.moving('by hand', Promise.resolve())
    expect(passed).toEqual(['a failed child', 'by hand'])
  })

  test('is that of the later run, when an earlier one ends', () => {
    const visits = visitsWith()
    const job = jobOf('1')
    const earlier = visits.start(jobOf('1'), 'token', undefined)
    wokenIn(visits, '1')
    const later = visits.start(job, 'token', undefined)
    expect(later).not.toBe(earlier)
    visits.end(earlier)
    expect(visits.ending(job)).toBe(later)
  })

  test('has the lease of the job before it, until no job comes for it', async () => {
    const [own, next] = [leaseOf(), leaseOf()]
    const visits = visitsWith(() => next.lease)
    const visit = startedUnder(own.lease, visits)
    visits.done(visit, 1, false)
    const second = wokenIn(visits, '2')
    visit.settle?.(second)
    expect(visit.lease).toBeUndefined()
    expect(second.lease).toBe(next.lease)
    await next.released
    expect(second.lease).toBeUndefined()
  })

  test('keeps its lease after its burst while it is known that nobody waits for it', async () => {
    const own = leaseOf()
    const answers: ((waited: readonly string[]) => void)[] = []
    const visits = new Visits(
      {
        handOver: () => own.lease,
        waitedFor: () => new Promise((resolve) => answers.push(resolve)),
      } as never,
      {},
      200,
    )
    let [visit, nr] = [visits.start(jobOf('0'), 'token', undefined), 0]
    visit.lines = LINES
    visit.lease = own.lease
    const goesOn = (): boolean => {
      visits.done(visit, 150, false)
      const next = wokenIn(visits, String(++nr))
      visit.settle?.(next)
      visit = visits.start(jobOf(String(nr)), 'token', undefined)
      return next.lease !== undefined
    }
    expect(goesOn()).toBe(true)
    answers[0]?.([])
    await pause(1)
    expect(goesOn()).toBe(true) // Its first burst is spent.
    await pause(250)
    expect(goesOn()).toBe(false) // So is its second one, and the answer is old.
    await own.released
    await visits.close()
  })

  test('releases its lease after its burst where a client waits', async () => {
    const own = leaseOf()
    const locks = { handOver: () => own.lease, waitedFor: () => Promise.resolve(['customer:1']) }
    const visits = new Visits(locks as never, {}, 20)
    let visit = startedUnder(own.lease, visits)
    visits.done(visit, 15, false)
    const second = wokenIn(visits, '2')
    visit.settle?.(second)
    await pause(1)
    visit = visits.start(jobOf('2'), 'token', undefined)
    visits.done(visit, 15, false)
    visit.settle?.(wokenIn(visits, '3'))
    await own.released
    await visits.close()
  })

  test('keeps the lease that it is left after its start, however long it runs', async () => {
    const [own, next] = [leaseOf(), leaseOf()]
    const answers: ((waited: readonly string[]) => void)[] = []
    const waitedFor = (): Promise<readonly string[]> =>
      new Promise((resolve) => answers.push(resolve))
    const visits = new Visits({ handOver: () => next.lease, waitedFor } as never, {}, 1_000)
    const visit = startedUnder(own.lease, visits)
    visits.done(visit, 1_500, false)
    const second = wokenIn(visits, '2')
    visit.settle?.(second)
    visits.start(jobOf('2'), 'token', undefined)
    answers[0]?.([])
    await second.handed
    expect(second.lease).toBe(next.lease)
    await pause(1_100)
    expect(second.lease).toBe(next.lease)
    await visits.close(true)
  })

  test('passes its lease to no job of another line', async () => {
    const own = leaseOf()
    const visits = visitsWith(() => leaseOf().lease)
    const visit = startedUnder(own.lease, visits)
    visits.done(visit, 1, false)
    const other = wokenIn(visits, '2', '["customer:2"]')
    visit.settle?.(other)
    expect(other.lease).toBeUndefined()
    await own.released
  })
})
