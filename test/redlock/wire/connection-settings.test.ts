import { describe, expect, it } from 'vitest'
import { connectionSettings, masterName } from '../../../src/redlock/wire/connection-settings.ts'
import { LIMITS } from './connection.ts'

describe('the pause before the next attempt to connect', () => {
  const { retryStrategy } = connectionSettings(LIMITS)
  const pauses = (times: number): number[] =>
    Array.from({ length: 50 }, () => Number(retryStrategy?.(times)))

  it('stays short however long the server is away, and never ends the attempts', () => {
    for (const times of [1, 2, 5, 20, 1_000, 1_000_000]) {
      expect(Math.min(...pauses(times))).toBeGreaterThan(0)
      expect(Math.max(...pauses(times))).toBeLessThanOrEqual(500)
    }
  })

  it('grows at first, and is random, so that clients do not all come at once', () => {
    expect(Math.max(...pauses(1))).toBeLessThan(Math.min(...pauses(3)))
    expect(new Set(pauses(20)).size).toBeGreaterThan(1)
  })
})

it('the name of a master, for logs and errors, has no password', () => {
  expect(masterName('redis://worker:open-sesame@lock-1:7000/2')).toBe('lock-1:7000')
  expect(masterName('rediss://lock-1')).toBe('lock-1:6379')
  expect(masterName({ host: 'lock-1', port: 7_000, password: 'open-sesame' })).toBe('lock-1:7000')
  expect(masterName({ path: '/run/redis.sock' })).toBe('/run/redis.sock')
})
