/**
 * Where things live. A Redis Cluster has 16,384 slots, and n shards share them in n equal ranges. A
 * resource lives in the shard in whose range the slot of its name is. The prefix of a shard is
 * chosen so that its own keys are at the beginning of that range. So a cluster whose nodes have
 * equal ranges has equally many shards on each.
 */
import { randomBytes } from 'node:crypto'
import { ShardError } from '../errors.ts'
import { integerOption, refuse } from '../options.ts'

/** Of a Redis Cluster. */
const SLOTS = 16_384
const MAX_SHARDS = 64
/** What marks the number of a shard in an id. */
const OF_SHARD = /^(\d+)~/

export function checkedShards(shards: unknown): number {
  return integerOption('shards', shards, 1, MAX_SHARDS)
}

/** The slot of a key. As in Redis, only the first part in braces counts, where there is one. */
export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(/^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
  }
  return crc & (SLOTS - 1)
}

/** BullMQ's prefix of each shard. That of the first does not depend on how many there are. */
export function prefixesOf(prefix: string, shards: number): readonly string[] {
  const base = /^\{(.+)\}$/.exec(prefix)?.[1] ?? prefix
  if (/[{}]/.test(base))
    refuse('prefix', 'without braces: each shard has its own in braces', prefix)
  return Array.from({ length: shards }, (_, shard) => {
    const first = Math.ceil((shard * SLOTS) / shards)
    for (let nr = 0; nr < SLOTS; nr++) {
      const found = `{${base}-${shard}-${nr}}`
      const slot = slotOf(found)
      if (slot >= first && slot < first + SLOTS / MAX_SHARDS) return found
    }
    return refuse('prefix', 'another one: no slot of a cluster was found for it', prefix)
  })
}

/** @throws ShardError where the resources are in several shards. */
export function shardOf(resources: readonly string[], shards: number): number {
  if (shards === 1) return 0
  const found = resources.map((name) => Math.floor((slotOf(name) * shards) / SLOTS))
  const [shard = 0] = found
  // rule: resources-of-a-job-are-in-one-shard
  if (found.some((each) => each !== shard)) {
    const where = resources.map((name, nr) => `\`${name}\` in shard ${found[nr] ?? 0}`)
    throw new ShardError(
      `The resources of a job have to be in one shard, and no script runs over two: ${where.join(', ')}. ` +
        `Give them a common part in braces, such as \`{acme}:invoices\` and \`{acme}:mails\`.`,
    )
  }
  return shard
}

/** Makes ids for jobs of a shard: no other process or queue makes them. */
export function idMaker(): (shard: number) => string {
  const maker = randomBytes(9).toString('base64url')
  let made = 0
  return (shard) => `${shard}~${maker}${(made++).toString(36)}`
}

/** The shard that an id names; undefined for one that a user or a scheduler has chosen. */
export function shardNamed(jobId: string): number | undefined {
  const named = OF_SHARD.exec(jobId)?.[1]
  return named === undefined ? undefined : Number(named)
}

/** As each shard records it, in this field of BullMQ's `meta`. */
export const SHARD_FIELD = 'redlock:shard'
export function recordOf(shard: number, shards: number): string {
  return `${shard} of ${shards}`
}
