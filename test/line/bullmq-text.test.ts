/** What the composed scripts rely on in BullMQ's text, and what a release is refused for. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  bullmqScripts,
  hasFunction,
  passedOn,
  unlike,
} from '../../src/line/bullmq/composed-script.ts'
import { calledCommands } from '../../src/line/line-scripts.ts'

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

test('the rights that are asked for are those of all scripts', () => {
  const folders = ['line', 'sharded'].map((room) =>
    join(import.meta.dirname, `../../src/${room}/lua`),
  )
  const texts = folders.flatMap((folder) =>
    readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8')),
  )
  const called = texts.flatMap((lua) =>
    [...lua.matchAll(/redis\.call\('(\w+)'/g)].map(([, name = '']) => name),
  )
  expect(called.length).toBeGreaterThan(100)
  expect(called.filter((name) => !calledCommands().includes(name))).toEqual([])
})
