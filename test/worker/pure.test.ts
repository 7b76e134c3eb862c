import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { NotGranted } from '../../src/index.ts'
import { JobSignal } from '../../src/worker/job-signal.ts'
import { earlierRequeues, requeueDelayMs } from '../../src/worker/requeue.ts'

const random = fc.double({ min: 0, max: 0.999, noNaN: true })
const tries = fc.integer({ min: 0, max: 1_000 })
const taken = (retryAfterMs: number): NotGranted => ({
  status: 'taken',
  resource: 'r',
  holder: 'h',
  retryAfterMs,
  answers: [],
})
const unreachable = (retryAfterMs: number): NotGranted => ({
  status: 'unreachable',
  resource: 'r',
  retryAfterMs,
  answers: [],
})
const split: NotGranted = { status: 'split', resource: 'r', answers: [] }

describe('how long a job stays away', () => {
  test('taken: never longer than the holder can still last, plus jitter', () => {
    const left = fc.integer({ min: 0, max: 60_000 })
    fc.assert(
      fc.property(left, tries, random, (leftMs, n, r) => {
        const delayMs = requeueDelayMs(taken(leftMs), n, r)
        expect(delayMs).toBeGreaterThan(0)
        expect(delayMs).toBeLessThanOrEqual(Math.min(1_000, leftMs + 50))
      }),
    )
  })

  test('split: short; unreachable: growing, with a cap', () => {
    fc.assert(
      fc.property(tries, random, (n, r) => {
        expect(requeueDelayMs(split, n, r)).toBeLessThanOrEqual(500)
        expect(requeueDelayMs(unreachable(0), n, r)).toBeLessThanOrEqual(30_000)
      }),
    )
    const growing = [0, 2, 4, 6].map((n) => requeueDelayMs(unreachable(0), n, 0.5))
    expect(growing).toEqual([...growing].sort((a, b) => a - b))
    expect(new Set(growing).size).toBe(4)
  })

  test('unreachable by quarantine: not before the masters vote again', () => {
    fc.assert(
      fc.property(tries, random, (n, r) => requeueDelayMs(unreachable(7_000), n, r) >= 7_000),
    )
  })

  test('is random, so that jobs that met once do not meet again', () => {
    expect(requeueDelayMs(split, 3, 0.1)).not.toBe(requeueDelayMs(split, 3, 0.9))
  })

  test('counts requeues, not failed attempts', () => {
    expect(earlierRequeues({ attemptsStarted: 1, attemptsMade: 0 })).toBe(0)
    expect(earlierRequeues({ attemptsStarted: 4, attemptsMade: 1 })).toBe(2)
  })
})

describe('the signal of a job', () => {
  test('aborts for the first of its sources, with an Error that says which', () => {
    const lease = new AbortController()
    const cancel = new AbortController()
    const job = new JobSignal()
    job.follow(lease.signal)
    job.follow(cancel.signal)
    cancel.abort('by the operator')
    lease.abort(new Error('later'))
    expect(job.signal.reason).toEqual(new Error('The job was cancelled: by the operator'))
  })

  test('follows a source that aborted before, and lets go at the end', () => {
    const job = new JobSignal()
    job.follow(AbortSignal.abort(new Error('lost')))
    expect(job.signal.reason).toEqual(new Error('lost'))
    const late = new AbortController()
    const ended = new JobSignal()
    ended.follow(late.signal)
    ended.end()
    late.abort()
    expect(ended.signal.aborted).toBe(false)
  })
})
