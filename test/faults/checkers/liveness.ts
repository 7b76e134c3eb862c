import { Redlock, silentLogger } from '../../../src/index.ts'

export interface LivenessOptions {
  readonly urls: readonly string[]
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly resources: readonly string[]
  readonly limitMs: number
}

/** When all is quiet, a newcomer gets every resource in time. */
export async function wedgedResources(options: LivenessOptions): Promise<readonly string[]> {
  const { urls, namespace, leaseMs, maxLeaseMs, resources, limitMs } = options
  const startedAt = performance.now()
  await using redlock = new Redlock({
    masters: urls,
    namespace,
    leaseMs,
    maxLeaseMs,
    owner: 'newcomer',
    logger: silentLogger,
  })
  const tries = resources.map(async (resource) => {
    const waitMs = Math.max(0, Math.ceil(limitMs - (performance.now() - startedAt)))
    try {
      await using lease = await redlock.acquire(resource, { waitMs })
      return lease.remainingMs() > 0 ? [] : [`${resource}: granted without any time left`]
    } catch (error) {
      return [`${resource}: not free within ${limitMs} ms: ${String(error)}`]
    }
  })
  return (await Promise.all(tries)).flat()
}
