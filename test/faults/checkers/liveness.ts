import { silentLogger } from '../../../src/index.ts'
import { openService } from '../open-service.ts'

export interface LivenessOptions {
  readonly masters: readonly string[]
  readonly locks?: string
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly resources: readonly string[]
  readonly limitMs: number
}

/** When all is quiet, a newcomer gets every resource in time. */
export async function wedgedResources(options: LivenessOptions): Promise<readonly string[]> {
  const { resources, limitMs } = options
  const startedAt = performance.now()
  const redlock = await openService({ ...options, owner: 'newcomer', logger: silentLogger })
  const tries = resources.map(async (resource) => {
    const waitMs = Math.max(0, Math.ceil(limitMs - (performance.now() - startedAt)))
    try {
      await using lease = await redlock.acquire(resource, { waitMs })
      return lease.remainingMs() > 0 ? [] : [`${resource}: granted without any time left`]
    } catch (error) {
      return [`${resource}: not free within ${limitMs} ms: ${String(error)}`]
    }
  })
  const wedged = (await Promise.all(tries)).flat()
  await redlock.close()
  return wedged
}
