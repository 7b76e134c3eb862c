/**
 * How batches leave on one ioredis connection. The only file that uses what ioredis keeps to
 * itself: a command class of ours, and the socket timer. It does so for the versions that
 * `test/redlock/wire/ioredis-versions.test.ts` runs; with others, batches are ordinary commands.
 *
 * What ioredis does for an ordinary command costs more than the batch itself: it encodes every
 * argument, makes a promise, and starts timers. A batch needs none of them. Its bytes are made
 * here, its callers are told in the turn in which the answer arrives, each of them has its own
 * deadline, and a socket that stays silent is replaced.
 */
import type { Command, Redis } from 'ioredis'
import { ioredis, ioredisVersion, ofIoredis } from '../../ioredis.ts'
import type { Script } from '../../lua.ts'

/** Called once: with the answer to a batch, or with the error that came instead. */
export type Heard = (answer: unknown, error?: unknown) => void

export interface BatchSender {
  /** `bytes` is the length of `entries` as UTF-8. */
  send(entries: string, bytes: number, heard: Heard): void
  /** Which server is asked from now on; '' while no batch leaves: ioredis' socket timer counts. */
  enrolled(runId: string): void
  /** Breaks the connection; ioredis makes another one. */
  disconnect(why: string): void
}

export function batchSender(redis: Redis, script: Script): BatchSender {
  const sender = usesOwnCommands() ? ownCommands(redis, script) : ordinaryCommands(redis, script)
  return { ...sender, disconnect: (why) => redis.stream.destroy(new Error(why)) }
}

type Commands = Pick<BatchSender, 'send' | 'enrolled'>

/** Works with every ioredis. */
function ordinaryCommands(redis: Redis, script: Script): Commands {
  let runId = ''
  return {
    enrolled: (enrolled) => (runId = enrolled),
    send: (entries, _bytes, heard) => {
      redis.evalsha(script.sha1, 0, entries, runId).then(heard, (error: unknown) => {
        heard(undefined, error)
      })
    },
  }
}

function ownCommands(redis: Redis, script: Script): Commands {
  const { socketTimeout } = redis.options
  const BatchCommand = batchCommand()
  const head = `*5\r\n${['EVALSHA', script.sha1, '0'].map(bulk).join('')}`
  let tail = ''
  return {
    enrolled: (runId) => {
      tail = bulk(runId)
      redis.options.socketTimeout = runId === '' ? socketTimeout : undefined
    },
    send: (entries, bytes, heard) => {
      const text = `${head}$${bytes}\r\n${entries}\r\n${tail}`
      redis.sendCommand(new BatchCommand(text, heard) as unknown as Command)
    },
  }
}

/** What ioredis calls on a command that it sends. */
interface Sendable {
  initPromise(): void
  toWritable(): string
  setTimeout(): void
  resolve(reply: unknown): void
  reject(error: unknown): void
}

type BatchCommandClass = new (text: string, heard: Heard) => Sendable

const batchCommand = ofIoredis(({ Command }): BatchCommandClass => {
  const Base = Command as unknown as new (name: string, args: readonly string[]) => Sendable
  class BatchCommand extends Base {
    readonly #text: string
    readonly #heard: Heard

    constructor(text: string, heard: Heard) {
      super('evalsha', [])
      this.#text = text
      this.#heard = heard
    }

    override toWritable(): string {
      return this.#text
    }

    /** The parsers of ioredis give texts as bytes. */
    override resolve(reply: unknown): void {
      this.#heard(Buffer.isBuffer(reply) ? reply.toString() : textsOf(reply))
    }

    override reject(error: unknown): void {
      this.#heard(undefined, error)
    }
  }
  // It has no promise: callers are told by `resolve` and `reject`. Each of them has a deadline,
  // and a socket that stays silent is replaced.
  const nothing = (): void => undefined
  Object.assign(BatchCommand.prototype, { initPromise: nothing, setTimeout: nothing })
  return BatchCommand
})

function textsOf(reply: unknown): unknown {
  if (Buffer.isBuffer(reply)) return reply.toString()
  return Array.isArray(reply) ? reply.map(textsOf) : reply
}

/** An argument as Redis reads it. */
function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`
}

let isKnown: boolean | undefined

/** Whether the installed ioredis is one that this file knows. */
export function usesOwnCommands(): boolean {
  return (isKnown ??= isKnownVersion(ioredisVersion()) && hasExpectedShape())
}

/** The range of `peerDependencies`: 5.4 and later 5.x, 6.x. */
export function isKnownVersion(version: string): boolean {
  const [, major = '', minor = ''] = /^(\d+)\.(\d+)\.\d+/.exec(version) ?? []
  return (major === '5' && Number(minor) >= 4) || major === '6'
}

function hasExpectedShape(): boolean {
  const methods = ioredis().Command.prototype as unknown as Readonly<Record<string, unknown>>
  return ['initPromise', 'toWritable', 'setTimeout'].every(
    (name) => typeof methods[name] === 'function',
  )
}
