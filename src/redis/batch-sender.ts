/**
 * How batches leave on one ioredis connection. The only file that uses what ioredis keeps to
 * itself: a command class of ours, and the socket timer. It does so for the versions that
 * `test/redis/ioredis-versions.test.ts` runs; with any other, batches leave as ordinary commands.
 *
 * What ioredis does for an ordinary command costs more than the batch itself: it encodes every
 * argument, makes a promise, and starts timers. A batch needs none of them. Its bytes are made
 * here, its callers are told in the turn in which the answer arrives, each of them has a deadline
 * of its own, and a socket that stays silent is replaced.
 */
import { createRequire } from 'node:module'
import { Command, type Redis } from 'ioredis'
import type { Clock, Timer } from '../clock.ts'
import type { Script } from './script.ts'

export interface Batch {
  readonly entries: string
  /** The length of `entries` as UTF-8. */
  readonly bytes: number
  readonly runId: string
  readonly answered: (answer: unknown) => void
  readonly failed: (error: unknown) => void
}

export interface BatchSender {
  send(batch: Batch): void
  /** Whether batches leave now: other commands have ioredis' own socket timer. */
  setSending(isSending: boolean): void
}

export interface BatchSenderOptions {
  readonly redis: Redis
  readonly script: Script
  readonly clock: Clock
  /** A socket on which batches stay unanswered this long is replaced. */
  readonly socketTimeoutMs: number
}

export function batchSender(options: BatchSenderOptions): BatchSender {
  return usesOwnCommands() ? new ByteSender(options) : new CommandSender(options)
}

/** Works with every ioredis. */
class CommandSender implements BatchSender {
  readonly #options: BatchSenderOptions

  constructor(options: BatchSenderOptions) {
    this.#options = options
  }

  send({ entries, runId, answered, failed }: Batch): void {
    const { redis, script } = this.#options
    redis.evalsha(script.sha1, 0, entries, runId).then(answered, failed)
  }

  setSending(): void {
    // Every command has ioredis' socket timer.
  }
}

class ByteSender implements BatchSender {
  readonly #options: BatchSenderOptions
  readonly #head: string
  /** Batches without an answer. */
  #unanswered = 0
  #wasHeard = false
  #silence: Timer | undefined

  constructor(options: BatchSenderOptions) {
    this.#options = options
    this.#head = `*5\r\n${['EVALSHA', options.script.sha1, '0'].map(bulk).join('')}`
  }

  send({ entries, bytes, runId, answered, failed }: Batch): void {
    this.#unanswered++
    const command = new BatchCommand(
      `${this.#head}$${bytes}\r\n${entries}\r\n${bulk(runId)}`,
      (answer) => {
        this.#unanswered--
        this.#wasHeard = true
        answered(answer)
      },
      (error) => {
        this.#unanswered--
        failed(error)
      },
    )
    this.#options.redis.sendCommand(command as unknown as Command)
    if (this.#silence === undefined) this.#watchSilence()
  }

  setSending(isSending: boolean): void {
    const { redis, socketTimeoutMs } = this.#options
    redis.options.socketTimeout = isSending ? undefined : socketTimeoutMs
    if (isSending) return
    this.#silence?.cancel()
    this.#silence = undefined
  }

  /** One timer for many batches, so silence may be noticed up to one limit late. */
  #watchSilence(): void {
    const { redis, clock, socketTimeoutMs } = this.#options
    this.#wasHeard = false
    this.#silence = clock.after(socketTimeoutMs, () => {
      this.#silence = undefined
      if (this.#unanswered === 0) return
      if (this.#wasHeard) this.#watchSilence()
      else redis.stream.destroy(new Error(`no data from the server for ${socketTimeoutMs} ms`))
    })
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

const Base = Command as unknown as new (name: string, args: readonly string[]) => Sendable

class BatchCommand extends Base {
  readonly #bytes: string
  readonly #answered: (answer: unknown) => void
  readonly #failed: (error: unknown) => void

  constructor(
    bytes: string,
    answered: (answer: unknown) => void,
    failed: (error: unknown) => void,
  ) {
    super('evalsha', [])
    this.#bytes = bytes
    this.#answered = answered
    this.#failed = failed
  }

  override initPromise(): void {
    // Called by the constructor of `Command`. Callers are told by `resolve` and `reject`.
  }

  override setTimeout(): void {
    // Each caller has a deadline, and `#watchSilence` replaces the socket.
  }

  override toWritable(): string {
    return this.#bytes
  }

  override resolve(reply: unknown): void {
    this.#answered(textOf(reply))
  }

  override reject(error: unknown): void {
    this.#failed(error)
  }
}

/** The parsers of ioredis give texts as bytes. */
function textOf(reply: unknown): unknown {
  if (Buffer.isBuffer(reply)) return reply.toString()
  return Array.isArray(reply) ? reply.map(textOf) : reply
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

/** Empty where the package cannot be found, as in a bundle. */
function ioredisVersion(): string {
  try {
    const found = createRequire(import.meta.url)('ioredis/package.json') as { version?: unknown }
    return String(found.version)
  } catch {
    return '' // Then batches leave as ordinary commands.
  }
}

function hasExpectedShape(): boolean {
  const methods = Command.prototype as unknown as Readonly<Record<string, unknown>>
  return ['initPromise', 'toWritable', 'setTimeout'].every(
    (name) => typeof methods[name] === 'function',
  )
}
