/** What the composed scripts rely on in BullMQ's text, and what a release is refused for. */
import { expect, test } from 'vitest'
import {
  bullmqScripts,
  hasFunction,
  ownScript,
  passedOn,
  unlike,
} from '../../src/line/bullmq/composed-script.ts'

const text = bullmqScripts().get('moveToFinished')?.lua ?? ''

test('a function with other parameters is another function', () => {
  expect(hasFunction(text, 'getRateLimitTTL')).toBe(true)
  expect(
    hasFunction(text.replace('getRateLimitTTL(maxJobs, ', 'getRateLimitTTL('), 'getRateLimitTTL'),
  ).toBe(false)
})

test('a function that is called can be made on demand, one that is passed on cannot', () => {
  expect(passedOn(text)).toBeUndefined()
  expect(passedOn(`${text}\nlocal ok = pcall(removeJob, jobId)\n`)).toBe('removeJob')
  expect(passedOn(`${text}\nlocal done = 1 -- See removeJob.\n`)).toBeUndefined()
})

test('texts share their functions only where these are the same', () => {
  const add = bullmqScripts().get('addStandardJob')?.lua ?? ''
  const other = bullmqScripts().get('addDelayedJob')?.lua ?? ''
  expect(unlike([add, other])).toBeUndefined()
  expect(unlike([add, other.replace('local maxEvents = rcall(', 'local maxEvents = pcall(')])).toBe(
    'getOrSetMaxEvents',
  )
})

test('a script of ours is put together once, and not for every call', () => {
  expect(ownScript('line/lua/sweep')).toBe(ownScript('line/lua/sweep'))
})
