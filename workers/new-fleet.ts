import { Redis } from 'ioredis'
import pRetry from 'p-retry'
import { Redlock, silentLogger, type RedlockOptions } from '../src/index.ts'
import { startFleet, type Fleet } from '../src/testing/index.ts'
import type { Closing } from './demo/stopping.ts'

const BOOTSTRAP = { retries: 20, minTimeout: 200, factor: 1 }

/** Lock masters and a queue on this machine, which vote at once, and a client that sees them. */
export async function startNewFleet(
  masters: number,
  options: Omit<RedlockOptions, 'masters' | 'logger'>,
  closing: Closing,
): Promise<{ readonly fleet: Fleet; readonly observer: Redlock }> {
  const fleet = await startFleet({ masters })
  closing.add(() => fleet.close())
  await keepJobs(fleet.queue.url)
  const observer = new Redlock({ ...options, masters: fleet.urls, logger: silentLogger })
  closing.add(() => observer.close())
  // On a busy machine a master may answer late.
  await pRetry(() => observer.bootstrap({ newFleet: true }), BOOTSTRAP)
  return { fleet, observer }
}

/** As a queue is run: on disk. */
async function keepJobs(url: string): Promise<void> {
  const queue = new Redis(url)
  await queue.config('SET', 'appendonly', 'yes')
  queue.disconnect()
}
