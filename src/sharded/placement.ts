/**
 * A Redis Cluster has 16,384 slots, and n shards share them in n equal ranges. A resource lives in
 * the shard in whose range the slot of its name is, and so do the keys of that shard. So a cluster
 * whose nodes have equal ranges has equally many shards on each.
 */
import { ShardError } from '../errors.ts'
import { isName } from '../names.ts'
import { integerOption, refuse } from '../options.ts'
import { SLOTS, slotOf } from '../slot-of.ts'

/** Where the first shard records how many there are, in BullMQ's `meta`. */
export const SHARDS_FIELD = 'redlock:shards'
const MAX_SHARDS = 64

/** BullMQ's prefix of each shard. That of the first does not depend on how many there are. */
export function prefixesOf(prefix = 'bull', shards: number): readonly string[] {
  const base = /^\{(.+)\}$/.exec(prefix)?.[1] ?? prefix
  if (/[{}]/.test(base)) refuse('prefix', 'without braces, which each shard has', prefix)
  return Array.from({ length: integerOption('shards', shards, 1, MAX_SHARDS) }, (_, shard) => {
    const least = Math.ceil((shard * SLOTS) / shards)
    for (let nr = 0; ; nr++) {
      const found = `{${base}-${shard}-${nr}}`
      const after = slotOf(found) - least
      // At the beginning of its range: the first one is there for every number.
      if (after >= 0 && after < SLOTS / MAX_SHARDS) return found
    }
  })
}

/** @throws ShardError where the resources are in several shards. */
export function shardOf(resources: readonly string[], shards: number): number {
  const found = resources.map((name) => Math.floor((slotOf(name) * shards) / SLOTS))
  const [shard = 0] = found
  // rule: resources-of-a-job-are-in-one-shard
  if (found.every((each) => each === shard)) return shard
  const where = resources.map((name, nr) => `\`${name}\` in shard ${found[nr] ?? 0}`)
  throw new ShardError(
    `The resources of a job have to be in one shard, and no script runs over two: ${where.join(', ')}. ` +
      `Give them a common part in braces, such as \`{acme}:invoices\` and \`{acme}:mails\`.`,
  )
}

/** The shard that an id names; undefined for one that a user or a scheduler has chosen. */
export function shardNamed<Shard>(jobId: string, shards: readonly Shard[]): Shard | undefined {
  return shards.length === 1 ? shards[0] : shards[Number(/^(\d+)~/.exec(jobId)?.[1] ?? -1)]
}

/**
 * The one of the shards that have a job with an id.
 * @throws ShardError where there are several.
 */
export function shardWith<Shard>(
  jobId: string,
  queue: string,
  [holder, ...more]: readonly Shard[],
): Shard | undefined {
  if (more.length === 0) return holder
  throw new ShardError(
    `Several shards of queue \`${queue}\` have a job ${jobId}, because jobs of several resources were added with this id. ` +
      `Use an id for one resource only. \`queue.shards\` has each of these jobs.`,
  )
}

/** What a user's function names, of a job in one shard: jobs of another one have no order there. */
export function resourceIn<Subject, Named>(
  shard: number,
  shards: number,
  resource: (subject: Subject) => Named,
): (subject: Subject) => Named {
  return (subject) => {
    const named = resource(subject)
    const names: readonly unknown[] = [named].flat()
    // The shard itself says what is wrong with it, and of which job.
    if (names.length === 0 || !names.every(isName)) return named
    const other = shardOf(names, shards)
    // rule: shard-runs-no-job-of-another
    if (other === shard) return named
    throw new Error(`named ${names.join()} of shard ${other} for a job in shard ${shard}`)
  }
}
