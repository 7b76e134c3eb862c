import type { Redis } from 'ioredis'

/** Keys of the namespace that would stay for ever, apart from the enrolment of the master. */
export async function immortalKeys(
  masters: readonly Redis[],
  namespace: string,
): Promise<readonly string[]> {
  const found = await Promise.all(
    masters.map(async (redis, index) => {
      const keys = await redis.keys(`${namespace}:*`)
      const ttls = await Promise.all(keys.map((key) => redis.pttl(key)))
      return keys
        .filter((key, at) => ttls[at] === -1 && key !== `${namespace}:master`)
        .map((key) => `master ${index + 1}: ${key} has no time to live`)
    }),
  )
  return found.flat()
}
