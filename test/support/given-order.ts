/** In which order a queue's jobs were given to workers. */
import { Redis } from 'ioredis'

/**
 * Ids, as the queue's Redis gave them. The order of starts may be another one: a lease that comes
 * late lets others start before.
 */
export async function givenOrder(url: string, queue: string): Promise<readonly number[]> {
  const client = new Redis(url)
  const events = await client.xrange(`bull:${queue}:events`, '-', '+')
  await client.quit()
  return events
    .map(([, fields]) => fields)
    .filter((fields) => fields[1] === 'active')
    .map((fields) => Number(fields[fields.indexOf('jobId') + 1]))
}

/** By how many places each was given too early or too late. */
export function misplacedBy(given: readonly number[]): readonly number[] {
  const sorted = given.toSorted((a, b) => a - b)
  return given.map((id, index) => Math.abs(index - sorted.indexOf(id)))
}
