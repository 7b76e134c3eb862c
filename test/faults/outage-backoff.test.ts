/**
 * Found by dying-workers.test.ts: a job whose workers had crashed eight times met an outage of 0.8 s and slept for 26 s, and
 * with it the whole line behind it. Crashes are counted as earlier requeues, which double the delay.
 */
import { expect, it } from 'vitest'
import { earlierRequeues } from '../../src/worker/requeue.ts'

// Turns red, and becomes a plain test, as soon as it is mended.
it.fails(
  'a run that ended in a crash was not given back, so it does not lengthen the next wait',
  () => {
    const crashedEightTimes = { attemptsStarted: 9, attemptsMade: 0, stalledCounter: 8 }
    expect(earlierRequeues(crashedEightTimes)).toBe(0)
  },
)
