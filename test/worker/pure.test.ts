import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { NotGranted } from '../../src/index.ts'
import { asError, untilTaken } from '../../src/worker/run/failure.ts'
import {
  earlierRequeues,
  MAX_UNREACHABLE_MS,
  requeueDelayMs,
} from '../../src/worker/run/requeue.ts'
import { JobSignal } from '../../src/worker/run/job-lease.ts'

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
  quorum: 3,
  answers: [],
})
const split: NotGranted = { status: 'split', resource: 'r', answers: [] }

const delayOf = (outcome: NotGranted, earlier: number, drawn: number): number =>
  requeueDelayMs(outcome, earlier, drawn, MAX_UNREACHABLE_MS)

describe('how long a job stays away', () => {
  test('taken: never longer than the holder can still last, plus jitter', () => {
    const left = fc.integer({ min: 0, max: 60_000 })
    fc.assert(
      fc.property(left, tries, random, (leftMs, n, r) => {
        const delayMs = delayOf(taken(leftMs), n, r)
        expect(delayMs).toBeGreaterThan(0)
        expect(delayMs).toBeLessThanOrEqual(Math.min(1_000, leftMs + 50))
      }),
    )
  })

  test('split: short; unreachable: growing, with a cap', () => {
    fc.assert(
      fc.property(tries, random, (n, r) => {
        expect(delayOf(split, n, r)).toBeLessThanOrEqual(500)
        expect(delayOf(unreachable(0), n, r)).toBeLessThanOrEqual(30_000)
      }),
    )
    const growing = [0, 2, 4, 6].map((n) => delayOf(unreachable(0), n, 0.5))
    expect(growing).toEqual([...growing].sort((a, b) => a - b))
    expect(new Set(growing).size).toBe(4)
    expect(requeueDelayMs(unreachable(0), 20, 0.9, 1_000)).toBe(1_000)
  })

  test('unreachable by quarantine: until the masters vote, and no longer than in an outage', () => {
    fc.assert(fc.property(tries, random, (n, r) => delayOf(unreachable(7_000), n, r) >= 7_000))
    expect(requeueDelayMs(unreachable(27_000), 0, 0.9, 1_000)).toBeLessThanOrEqual(1_200)
  })

  test('is random, so that jobs that met once do not meet again', () => {
    expect(delayOf(split, 3, 0.1)).not.toBe(delayOf(split, 3, 0.9))
  })

  test('counts requeues, neither failed attempts nor runs that ended in a crash', () => {
    const count = (attemptsStarted: number, attemptsMade: number, stalledCounter: number): number =>
      earlierRequeues({ attemptsStarted, attemptsMade, stalledCounter })
    expect(count(1, 0, 0)).toBe(0)
    expect(count(4, 1, 0)).toBe(2)
    expect(count(9, 0, 8)).toBe(0)
  })
})

describe('the signal of a job', () => {
  const following = (lease: AbortSignal, bullmq?: AbortSignal): JobSignal => {
    const job = new JobSignal(bullmq)
    job.follow({ signal: lease })
    return job
  }

  test('aborts for the first of its sources, with its reason', () => {
    const lease = new AbortController()
    const cancel = new AbortController()
    const job = following(lease.signal, cancel.signal)
    const { signal } = job
    cancel.abort('by the operator')
    lease.abort(new Error('later'))
    job.abort(new Error('later still'))
    expect(signal.reason).toBe('by the operator')
    expect(asError(signal.reason).message).toBe('The job was cancelled: by the operator')
  })

  test('reports an earlier abort to a late reader', () => {
    const lost = following(AbortSignal.abort(new Error('lost')))
    expect(lost.signal.reason).toEqual(new Error('lost'))
    const stopped = new JobSignal(undefined)
    stopped.abort(new Error('stopped'))
    stopped.abort(new Error('later'))
    expect(stopped.signal.reason).toEqual(new Error('stopped'))
  })

  test('counts a cancellation by BullMQ before a step, also where the signal is not read', () => {
    const job = following(new AbortController().signal, AbortSignal.abort('by the operator'))
    expect(job.isAborted).toBe(true)
    expect(job.reason).toBe('by the operator')
  })

  test('removes its listeners at the end', () => {
    const lease = new AbortController()
    const job = following(lease.signal)
    const { signal } = job
    job.end()
    lease.abort()
    job.abort('too late')
    expect(signal.aborted).toBe(false)
  })

  test('is not created until it is read', () => {
    let asked = 0
    const job = new JobSignal(undefined)
    job.follow({
      get signal() {
        asked++
        return AbortSignal.abort()
      },
    })
    job.end()
    expect(job.signal.aborted).toBe(false)
    expect(asked).toBe(0)
  })
})

test('an end that the server refused is asked again, also where it was made to forget the script', async () => {
  const told: unknown[] = []
  const refusal = new Error('NOSCRIPT No matching script. Please use EVAL.')
  const end = (): Promise<string> => Promise.resolve('next')
  expect(await untilTaken(refusal, end, (error) => told.push(error))).toBe('next')
  expect(told).toEqual([refusal])
  const other = new Error('Missing lock for job 1')
  await expect(untilTaken(other, end, () => undefined)).rejects.toBe(other)
})
