import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { optionsOf, page, PAGE } from '../../scripts/docs/configuration.ts'

test('docs/configuration.md equals the option types (npm run docs:configuration writes it)', async () => {
  expect(readFileSync(PAGE, 'utf8')).toBe(await page())
})

test('every option says what it does', () => {
  const options = optionsOf('redlock/settings.ts', 'RedlockOptions')
  expect(options.map(({ name }) => name)).toContain('maxLeaseMs')
  expect(options.map(({ name }) => name)).not.toContain('connect')
  const silent = [
    ...options,
    ...optionsOf('worker/locked-worker-options.ts', 'LockedWorkerOptions'),
    ...optionsOf('worker/locked-queue-options.ts', 'LockedQueueOptions'),
  ].filter(({ about, byDefault }) => `${about}${byDefault}` === '')
  expect(silent).toEqual([])
})
