/** A Redlock that closes while leases are held: its work stops before another client is granted. */
import { describe, expect, test } from 'vitest'
import {
  LeaseLostError,
  listen,
  Redlock,
  RedlockClosedError,
  type LossReason,
} from '../../src/index.ts'
import { granted, until, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 3 })

describe('close', () => {
  test('aborts the signal of a held lease before it asks the masters', async () => {
    const losses: LossReason[] = []
    const stop = listen({
      on: {
        'lease:ended': ({ reason }, namespace) => {
          if (namespace === fixture.namespace && reason !== undefined) losses.push(reason)
        },
      },
    })
    fixture.defer(stop)
    const redlock = await fixture.redlock()
    const other = await fixture.redlock()
    const lease = await granted(redlock, 'r')
    const { signal } = lease
    const events: string[] = []
    signal.addEventListener('abort', () => events.push('aborted'))

    const closed = redlock.close()
    expect(signal.aborted).toBe(true)
    expect(signal.reason).toBeInstanceOf(LeaseLostError)
    expect(String(signal.reason)).toContain('its lock service was closed while it was held')
    expect(() => {
      lease.assertHeld()
    }).toThrow(LeaseLostError)
    await until('another client is granted it', async () => {
      const outcome = await other.tryAcquire('r')
      if (outcome.status === 'granted') events.push('granted elsewhere')
      return outcome.status === 'granted'
    })
    await closed
    expect(events).toEqual(['aborted', 'granted elsewhere'])
    expect(losses).toEqual(['closed'])
  })

  test('ends what is asked meanwhile, and blames no master for that', async () => {
    const redlock = await fixture.redlock()
    const asked = [redlock.tryAcquire('r'), redlock.inspect('r'), redlock.ready()]
    const calls = [...asked, redlock.bootstrap({ newFleet: true })].map((call) =>
      expect(call).rejects.toThrow(RedlockClosedError),
    )
    await Promise.all([redlock.close(), ...calls])
  })

  test('says nothing of masters to which it was still connecting', async () => {
    const said: unknown[] = []
    const say = (fields: unknown): void => void said.push(fields)
    const logger = { debug: say, info: say, warn: say, error: say }
    const masters = fixture.fleet.urls
    const { namespace } = fixture
    for (let ms = 0; ms < 15; ms += 0.25) {
      const redlock = new Redlock({ masters, namespace, logger })
      await new Promise((resolve) => setTimeout(resolve, ms))
      await redlock.close()
    }
    expect(JSON.stringify(said)).not.toContain('master:connecting')
  })
})
