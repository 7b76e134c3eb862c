/**
 * The outages that the tables of this folder have in common: what fails, and what can still be
 * known.
 */
import { openRedis } from '../tools/cli/open-redis.ts'
import type { Fixture } from '../fixtures.ts'

export interface Outage {
  readonly dead?: number
  readonly frozen?: number
  /** A master that may evict keys, and is refused by workers. */
  readonly refused?: boolean
  readonly queue?: 'dead' | 'silent' | 'full'
}

export const OUTAGES = {
  'no outage': {},
  '1 of 5 masters dead': { dead: 1 },
  '2 of 5 masters dead': { dead: 2 },
  '3 of 5 masters dead': { dead: 3 },
  '5 of 5 masters dead': { dead: 5 },
  '3 of 5 masters frozen': { frozen: 3 },
  'one master refused': { refused: true },
  "the queue's Redis dead": { queue: 'dead' },
  "the queue's Redis silent": { queue: 'silent' },
  "the queue's Redis at maxmemory": { queue: 'full' },
} as const satisfies Readonly<Record<string, Outage>>

export type OutageName = keyof typeof OUTAGES

/** Whether enough masters answer to know who holds what, and to grant a lease. */
export function hasQuorum({ dead = 0, frozen = 0 }: Outage): boolean {
  return dead + frozen < 3
}

/** Begins the outage. Returns how to end it; the end of the test ends it at the latest. */
export async function strike(fixture: Fixture, outage: Outage): Promise<() => Promise<void>> {
  const { dead = 0, frozen = 0, refused, queue: problem } = outage
  const { masters, urls, queue } = fixture.fleet
  const heals: (() => Promise<unknown>)[] = []
  for (const master of masters.slice(0, dead)) {
    heals.push(() => master.restart())
    await master.kill()
  }
  for (const master of masters.slice(0, frozen)) {
    heals.push(() => master.thaw())
    await master.freeze()
  }
  if (refused === true) {
    const redis = openRedis(urls[0] ?? '', fixture)
    heals.push(() => redis.config('SET', 'maxmemory-policy', 'noeviction'))
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
  }
  if (problem === 'dead') {
    heals.push(() => queue.restart())
    await openRedis(queue.url, fixture).save() // It comes back with the jobs that it had.
    await queue.kill()
  }
  if (problem === 'silent') {
    heals.push(() => queue.thaw())
    await queue.freeze()
  }
  if (problem === 'full') {
    const redis = openRedis(queue.url, fixture)
    heals.push(() => redis.config('SET', 'maxmemory', '0'))
    await redis.config('SET', 'maxmemory', '1')
  }
  const heal = async (): Promise<void> => {
    for (const one of heals.splice(0)) await one()
  }
  fixture.defer(heal)
  return heal
}
