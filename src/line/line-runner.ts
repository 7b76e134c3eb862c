/** How scripts are run on the keys of a queue: each by itself, or those of one turn together. */
import { atEndOfCallback, atEndOfTurn, ownCallback } from '../clock.ts'
import type { ComposedScript } from './bullmq/composed-script.ts'
import type { Replacement } from './line-scripts.ts'

/** What a script of ours is given, by name. What is undefined is absent. */
export type Arguments = Readonly<Record<string, unknown>>

export interface LineRunner {
  readonly queueName: string
  run(script: ComposedScript, args: Arguments): Promise<unknown>
  /** The whole name of one of our keys. */
  keyOf(key: string): string
}

/** A client of the queue's Redis. */
export interface Client {
  hget(key: string, field: string): Promise<string | null | undefined>
  zscore(key: string, member: string): Promise<string | null | undefined>
  runCommand(name: string, args: unknown[]): Promise<unknown>
  defineCommand(name: string, definition: { numberOfKeys: number; lua: string }): void
  /** Of ioredis. */
  readonly options?: { autoPipeliningIgnoredCommands?: readonly string[] | undefined }
}

/** Sends the scripts of one queue, with the arguments that all of them take. */
export class ScriptSender {
  readonly absentKey: string
  readonly base: string
  readonly slots: number
  readonly #defined = new Set<string>()
  /** Once it is connected: before anything is sent. */
  client!: Client

  constructor(base: string, slots: number) {
    this.base = base
    this.slots = slots
    this.absentKey = absentKeyIn(base)
  }

  /** Pipelines and transactions know only what was defined before they were made. */
  ready(client: Client, all: readonly Replacement[]): void {
    this.client = client
    for (const { script } of all) this.#define(client, script)
  }

  /** @param key one of the queue's: it has the same slot of a cluster. */
  run(client: Client, script: ComposedScript, key: string, args: Arguments): Promise<unknown> {
    this.#define(client, script)
    return client.runCommand(script.command, [key, this.absentKey, argumentsText(this, args)])
  }

  /** BullMQ's keys and arguments, and ours as one. Whatever goes wrong, it rejects. */
  async send(
    client: Client,
    { name, script, keys: count }: Replacement,
    args: readonly unknown[],
    ours: Arguments,
  ): Promise<unknown> {
    const keys = args.slice(0, count)
    // It may take the place of another script, which has more of them.
    while (keys.length < script.numberOfKeys - 1) keys.push(args[0])
    const text = argumentsText(this, { replaces: name, ...ours })
    const all = [...keys, this.absentKey, ...args.slice(count), text]
    return await client.runCommand(script.command, all)
  }

  #define(client: Client, script: ComposedScript): void {
    const { command, numberOfKeys } = script
    if (this.#defined.has(command)) return
    client.defineCommand(command, { numberOfKeys, lua: script.lua })
    sendAlone(client, command)
    this.#defined.add(command)
  }
}

/**
 * A pipeline of `enableAutoPipelining` that was made before a script was defined does not know it.
 * Then ioredis gives every caller of that pipeline the reply of another one.
 */
function sendAlone({ options }: Client, command: string): void {
  const others = options?.autoPipeliningIgnoredCommands
  if (options === undefined || others === undefined || others.includes(command)) return
  // rule: script-joins-no-older-pipeline
  options.autoPipeliningIgnoredCommands = [...others, command]
}

/**
 * Sends together what happens in one turn of the event loop, a few items at a time, and gives each
 * its own reply: see `lua/together.lua`. While no call is under way, what one callback adds leaves.
 */
export abstract class TurnGroup<Item> {
  readonly #most: { readonly items: number; readonly bytes: number }
  #waiting: Item[] = []
  /** One for each of them. */
  #callers: Caller[] = []
  #kind = ''
  #bytes = 0
  /** Calls that were sent, and are not settled. */
  #underWay = 0

  constructor(most: { items: number; bytes: number }) {
    this.#most = most
  }

  protected abstract send(items: readonly Item[]): Promise<unknown>

  /**
   * @param bytes about how long it is.
   * @param kind what is sent together is of one kind.
   * @returns what the server says about it.
   */
  add(item: Item, bytes: number, kind: string): Promise<unknown> {
    if (kind !== this.#kind) void this.flush()
    this.#kind = kind
    return new Promise((resolve, reject) => {
      // While the server has nothing to do, what comes first waits for no others.
      const soon = this.#underWay === 0 ? atEndOfCallback : atEndOfTurn
      if (this.#waiting.length === 0) soon(this.flush)
      this.#waiting.push(item)
      this.#callers.push({ resolve, reject })
      this.#bytes += bytes
      const { items: mostItems, bytes: mostBytes } = this.#most
      if (this.#waiting.length >= mostItems || this.#bytes >= mostBytes) void this.flush()
    })
  }

  readonly flush = async (): Promise<void> => {
    const [waiting, callers] = [this.#waiting, this.#callers]
    if (waiting.length === 0) return
    this.#waiting = []
    this.#callers = []
    this.#bytes = 0
    this.#underWay++
    try {
      const reply = await this.send(waiting)
      // Replies that came together are settled in a callback each. So what the jobs of one call
      // send leaves, and the server works, before those of the next call are settled.
      if (this.#underWay > 1) await ownCallback()
      const replies = (typeof reply === 'string' ? JSON.parse(reply) : reply) as readonly unknown[]
      for (const [index, { resolve, reject }] of callers.entries()) {
        const own = replies[index]
        const message: unknown = Array.isArray(own) ? own[0] : undefined
        if (typeof message !== 'string') resolve(own)
        else reject(Object.assign(new Error(message), { name: 'ReplyError' }))
      }
    } catch (error) {
      for (const { reject } of callers) reject(error)
    } finally {
      this.#underWay--
    }
  }
}

interface Caller {
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}

/**
 * As `lua/keys.lua` names it.
 * @param base what BullMQ's keys of the queue begin with.
 */
export function keyIn(base: string, key: string): string {
  return `${base}redlock:::${key}`
}

/**
 * The last key of every script. It is never there. While a slot moves between nodes of a cluster, a
 * node lets a script with such a key try again: else it would run with half of the queue's keys.
 */
export function absentKeyIn(base: string): string {
  // rule: no-script-runs-while-its-slot-moves
  return keyIn(base, 'absent')
}

/** Arguments as a script takes them: one text of JSON. Those of `lua/keys.lua` are in all. */
export function argumentsText(
  { base, slots }: { readonly base: string; readonly slots: number },
  args: Arguments,
): string {
  return jsonText({ base, slots, ...args })
}

/** JSON for Lua, which refuses half a surrogate pair. The message of an error may end in one. */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  return text.includes('\\ud') ? JSON.stringify(value, wellFormed) : text
}

/** As a client writes it: half a surrogate pair becomes a replacement character. */
const wellFormed = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed() : value
