/**
 * The queues or the workers of all shards. Each shard records how many there are, and the first one
 * has the same prefix whatever their number. So a process with another number is refused before it
 * does anything.
 */
import { ShardError, ShardsDifferError } from '../errors.ts'
import { ownScript } from '../line/bullmq/composed-script.ts'
import { LineBackend } from '../line/line-backend.ts'
import { resourceName } from '../line/resource.ts'
import { recordOf, shardNamed, shardOf } from './placement.ts'

/**
 * The shard of the job or the resource that comes first is asked; or all, and what is made of it.
 * Otherwise it is refused, and this is what to do instead.
 */
export type Lent =
  'job' | 'resource' | `${'Use' | 'It'} ${string}` | ((answers: readonly never[]) => unknown)
type Methods = Readonly<Record<string, (...args: readonly unknown[]) => Promise<unknown>>>

const recordScript = ownScript('sharded/lua/record-shard')

export class Shards<Owner extends { getBackend(): unknown }> {
  readonly all: readonly Owner[]
  readonly #queue: string
  #checked: Promise<void> | undefined

  constructor(queue: string, all: readonly Owner[]) {
    this.#queue = queue
    this.all = all
  }

  at(shard: number): Owner {
    return this.all[shard] as Owner
  }

  /** The one that has a job; the first where none has. @throws ShardError where two have it. */
  async ofJob(id: string): Promise<Owner> {
    const named = this.all[shardNamed(id) ?? this.all.length]
    if (named !== undefined) return named
    const states = await this.ask((owner) => LineBackend.of(owner).getState(id))
    const [found = this.at(0), ...more] = this.all.filter((_, nr) => states[nr] !== 'unknown')
    if (more.length === 0) return found
    throw new ShardError(
      `Several shards of queue \`${this.#queue}\` have a job ${id}, because jobs of several resources were added with this id. ` +
        `Use an id for one resource only. \`queue.shards\` has each of these jobs.`,
    )
  }

  /** Asks all at once. @throws ShardsDifferError where others work with another number. */
  async ask<Answer>(question: (owner: Owner) => Promise<Answer>): Promise<readonly Answer[]> {
    await this.check()
    return Promise.all(this.all.map(question))
  }

  /** @throws ShardsDifferError where others work with another number. */
  check(): Promise<void> {
    this.#checked ??= this.#check().catch((error: unknown) => {
      this.forget()
      throw error
    })
    return this.#checked
  }

  /** What is recorded may have been removed. */
  forget(): void {
    this.#checked = undefined
  }

  /** Gives an object these methods of the shards. */
  lend(host: object, methods: Readonly<Record<string, Lent>>): void {
    for (const [name, lent] of Object.entries(methods)) {
      const value = async (...args: readonly unknown[]): Promise<unknown> => {
        const call = async (owner: Owner): Promise<unknown> =>
          (owner as unknown as Methods)[name]?.(...args)
        await this.check()
        if (lent === 'job') return call(await this.ofJob(String(args[0])))
        if (lent === 'resource') return call(this.of(args[0]))
        if (typeof lent === 'function') return lent((await this.ask(call)) as never)
        throw new ShardError(`A sharded queue has no \`${name}\` over its shards. ${lent}`)
      }
      Object.defineProperty(host, name, { value })
    }
  }

  /** The one in which a resource lives. */
  of(resource: unknown): Owner {
    return this.at(shardOf([resourceName(resource)], this.all.length))
  }

  async #check(): Promise<void> {
    await this.#record(this.at(0), 0)
    await Promise.all(this.all.map((owner, shard) => this.#record(owner, shard)))
  }

  async #record(owner: Owner, shard: number): Promise<void> {
    const mine = recordOf(shard, this.all.length)
    const recorded = await LineBackend.of(owner).run(recordScript, { shard: mine })
    // rule: number-of-shards-does-not-change
    if (recorded !== mine) throw new ShardsDifferError(this.#queue, mine, String(recorded))
  }
}
