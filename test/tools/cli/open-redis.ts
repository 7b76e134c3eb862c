import { Redis } from 'ioredis'
import type { Fixture } from '../../fixtures.ts'

/** A plain client for what a test does by hand; closed after the test. */
export function openRedis(url: string, fixture: Pick<Fixture, 'defer'>): Redis {
  const redis = new Redis(url, { protocol: 2, replyMapping: 'legacy' })
  redis.on('error', () => undefined) // Its server may be killed by the test.
  fixture.defer(() => {
    redis.disconnect()
    return Promise.resolve()
  })
  return redis
}
