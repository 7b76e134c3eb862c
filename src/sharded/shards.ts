import type { RedisQueueBackend } from 'bullmq'
import type { EventEmitter } from 'node:events'
import { allEnded } from '../all-ended.ts'
import { Deadlines, Expiring, idleClock, leave, mustAnswer } from '../clock.ts'
import {
  QueueDeniedError,
  ShardError,
  ShardsDifferError,
  ShardUnreachableError,
} from '../errors.ts'
import { LineBackend } from '../line/line-backend.ts'
import { getOrInsert } from '../get-or-insert.ts'
import { refusalOf } from '../line/queue-connection.ts'
import { touchedName } from '../names.ts'
import { isAway } from '../worker/run/failure.ts'
import { shardNamed, shardOf, SHARDS_FIELD, shardWith } from './placement.ts'

/**
 * What names of methods are lent to. The shard of the job or the resource that comes first is
 * asked; or all, and what is made of it. Otherwise it is refused, and this is what to use.
 */
export type Lent = 'job' | 'resource' | `\`${string}\`` | Made
type Made = (answers: readonly never[]) => unknown
type Methods = Readonly<Record<string, (...args: unknown[]) => unknown>>
type Part = EventEmitter & { readonly name: string; getBackend(): unknown }

/** How long a call may take before its server is asked, and how long the answer may take. */
const PATIENCE_MS = 5_000
const SILENT = `Command timed out: the server has not answered for ${PATIENCE_MS} ms`
/** They look in several shards for what they name. */
const IN_ORDER: readonly string[] = ['remove', 'removeJobScheduler']
const recordScript = 'sharded/lua/record-shards'
/** The answer of a shard that has one. */
export const found = (answers: readonly unknown[]): unknown => answers.find(Boolean) ?? answers[0]
/** The same of promises. */
export const later = (answers: readonly unknown[]): unknown => Promise.all(answers).then(found)

const openCalls = new Deadlines<OpenCall>(idleClock)

/**
 * A call that has not ended. It asks its server for a sign of life, and ends without one: a `pause`
 * waits for a new connection without end. Calls share a timer, which would cost more than the rest.
 */
class OpenCall extends Expiring {
  readonly #backend: RedisQueueBackend
  readonly #giveUp: (why: Error) => void
  #isOpen = true

  constructor(backend: RedisQueueBackend, giveUp: (why: Error) => void) {
    super()
    this.#backend = backend
    this.#giveUp = giveUp
    openCalls.in(PATIENCE_MS, this)
  }

  close(): void {
    this.#isOpen = false
    leave(this)
  }

  override expire(): void {
    const sign = this.#backend.getQueueMetaField(SHARDS_FIELD)
    // rule: silent-shard-ends-its-call
    const isAlive = mustAnswer(idleClock, PATIENCE_MS, sign, SILENT)
    isAlive.then(() => {
      if (this.#isOpen) openCalls.in(PATIENCE_MS, this)
    }, this.#giveUp)
  }
}

/**
 * The queues, the workers or the listeners of all shards, asked as one. The first one records how
 * many there are, and has one prefix whatever their number. So a process with another number is
 * refused at once.
 */
export class Shards<Shard extends Part> {
  readonly all: readonly Shard[]
  /** Their number is recorded, until `obliterate` removes it. */
  recorded: Promise<void> | undefined
  readonly #underWay = new Map<unknown, Promise<unknown>>()
  readonly #refusals = new Map<Shard, Promise<string | undefined>>()

  constructor(all: readonly Shard[]) {
    this.all = all
  }

  at(shard: number): Shard {
    return this.all[shard] as Shard
  }

  /** Where a shard rejects, so does this, when all have ended. */
  async ask<Answer>(question: (shard: Shard) => Answer): Promise<readonly Awaited<Answer>[]> {
    await this.check()
    return allEnded(this.all.map((shard) => this.call(shard, question)))
  }

  /**
   * What one shard answers, also after many trips.
   * @throws ShardUnreachableError where its server is silent or refuses.
   */
  call<Answer>(shard: Shard, question: (shard: Shard) => Answer): Promise<Awaited<Answer>> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        call.close()
        // One that is denied a command names its shard, and has done nothing.
        const isDenied = error instanceof QueueDeniedError
        // rule: error-names-its-shard
        if (isAway(error) && !isDenied) void this.#away(shard, error).then(reject)
        else reject(error)
      }
      const call = new OpenCall(shard.getBackend() as RedisQueueBackend, fail)
      // What it throws at once is a rejection too.
      const ask = async (): Promise<Awaited<Answer>> => await question(shard)
      ask().then((value) => {
        call.close()
        resolve(value)
      }, fail)
    })
  }

  /** ioredis does not say why a node closes its connections. One asks for all calls of a moment. */
  async #away(shard: Shard, error: unknown): Promise<ShardUnreachableError> {
    const backend = shard.getBackend() as RedisQueueBackend
    const asks = getOrInsert(this.#refusals, shard, () => refusalOf(backend))
    const refusal = await asks.finally(() => this.#refusals.delete(shard))
    // rule: refusal-of-a-shard-is-told
    const cause = refusal === undefined ? error : new Error(refusal, { cause: error })
    return new ShardUnreachableError(backend.qualifiedName, this.all.indexOf(shard), cause)
  }

  /** Of calls for one id that ask several shards, each begins when the one before has ended. */
  async inOrder<Answer>(id: unknown, call: () => Promise<Answer>): Promise<Answer> {
    // rule: calls-of-shards-keep-their-order
    const called = this.after([id], call)
    this.#underWay.set(id, called)
    try {
      return await called
    } finally {
      if (this.#underWay.get(id) === called) this.#underWay.delete(id)
    }
  }

  /** Begins when no such call for one of these ids is under way. */
  after<Answer>(ids: readonly unknown[], call: () => Promise<Answer>): Promise<Answer> {
    const before = ids.flatMap((id) => this.#underWay.get(id) ?? [])
    return before.length === 0 ? call() : Promise.allSettled(before).then(call)
  }

  /** @throws ShardsDifferError where others work with another number of shards. */
  check(): Promise<void> {
    this.recorded ??= this.call(this.at(0), () => this.#record()).catch((error: unknown) => {
      this.recorded = undefined
      throw error
    })
    return this.recorded
  }

  /** Gives a host these methods of the shards. Those that need no Redis answer at once. */
  lend(host: object, names: string, to: Lent, atOnce = false): void {
    for (const name of names.split(' ')) {
      // The host may be a shard itself.
      const method = (this.at(0) as unknown as Methods)[name]
      const value = (...args: unknown[]): unknown => {
        const call = (shard: Shard): unknown => method?.apply(shard, args)
        if (atOnce) return (to as Made)(this.all.map(call) as never)
        const asks = async (): Promise<unknown> =>
          typeof to === 'function'
            ? to((await this.ask(call)) as never)
            : this.call(await this.#meant(to, name, args[0]), call)
        return IN_ORDER.includes(name) ? this.inOrder(args[0], asks) : asks()
      }
      Object.defineProperty(host, name, { value })
    }
  }

  /**
   * The host tells what a shard tells. Of an event with a stroke, such as `drained/active`, only
   * the last shard counts, and what follows the stroke undoes it.
   */
  forward(host: Pick<EventEmitter, 'emit'>, events: string): void {
    for (const [event = '', undone] of events.split(' ').map((each) => each.split('/'))) {
      const told = new Set<Shard>()
      for (const shard of this.all) {
        shard.on(event, (...args: readonly unknown[]) => {
          // What all have told, and tell again, the first one tells for all.
          const counts = !told.has(shard) || shard === this.at(0)
          const isWhole = undone === undefined || told.add(shard).size === this.all.length
          if (isWhole && counts) host.emit(event, ...args)
        })
        if (undone) shard.on(undone, () => told.delete(shard))
      }
    }
  }

  /** One that only listens writes nothing. */
  async #record(): Promise<void> {
    const shards = this.all.length
    const backend = this.at(0).getBackend() as RedisQueueBackend
    const recorded =
      backend instanceof LineBackend
        ? await backend.run(recordScript, { shards })
        : ((await backend.getQueueMetaField(SHARDS_FIELD)) ?? shards)
    // rule: number-of-shards-does-not-change
    if (Number(recorded) !== shards) throw new ShardsDifferError(this.at(0).name, shards, recorded)
  }

  async #meant(to: string, method: string, target: unknown): Promise<Shard> {
    await this.check()
    const { resource } = to === 'resource' ? { resource: target } : (Object(target) as never)
    if (resource !== undefined || to === 'resource')
      return this.at(shardOf([touchedName(resource)], this.all.length))
    if (to !== 'job') throw new ShardError(`A sharded queue has no \`${method}\`. Use ${to}.`)
    const id = String(target)
    const named = shardNamed(id, this.all)
    if (named !== undefined) return named
    const states = await this.ask((shard) => LineBackend.of(shard).getState(id))
    const holders = this.all.filter((_, nr) => states[nr] !== 'unknown')
    return shardWith(id, this.at(0).name, holders) ?? this.at(0)
  }
}
