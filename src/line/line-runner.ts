/** How scripts are run on the keys of a queue, and what `lua/keys.lua` says of these. */
import { luaConstant } from '../lua.ts'
import type { ComposedScript } from './bullmq/composed-script.ts'
import type { Replacement } from './line-scripts.ts'

/**
 * What a script of ours is given, by name, as one text of JSON. What is undefined is absent. Those
 * of `lua/keys.lua` are in all.
 */
export type Arguments = Readonly<Record<string, unknown>>

export interface LineRunner {
  readonly queueName: string
  /** @param path of a script of ours, from `src/` on. */
  run(path: string, args: Arguments): Promise<unknown>
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
    const text = jsonText({ base: this.base, slots: this.slots, ...args })
    return client.runCommand(script.command, [key, this.absentKey, text])
  }

  /** BullMQ's keys and arguments, and ours as one. Whatever goes wrong, it rejects. */
  async send(
    client: Client,
    { name, script, keys: count }: Replacement,
    args: readonly unknown[],
    ours: Arguments | undefined,
  ): Promise<unknown> {
    const keys = args.slice(0, count)
    // It may take the place of another script, which has more of them.
    while (keys.length < script.numberOfKeys - 1) keys.push(args[0])
    const text = jsonText({ base: this.base, slots: this.slots, replaces: name, ...ours })
    const all = [...keys, this.absentKey, ...args.slice(count), text]
    return await client.runCommand(script.command, all)
  }

  #define(client: Client, script: ComposedScript): void {
    const { command, numberOfKeys } = script
    if (this.#defined.has(command)) return
    client.defineCommand(command, { numberOfKeys, lua: script.lua })
    this.#defined.add(command)
    const { options } = client
    const others = options?.autoPipeliningIgnoredCommands
    if (options === undefined || others === undefined || others.includes(command)) return
    // A pipeline of `enableAutoPipelining` that was made before a script was defined does not know
    // it. Then ioredis gives every caller of that pipeline the reply of another one.
    // rule: script-joins-no-older-pipeline
    options.autoPipeliningIgnoredCommands = [...others, command]
  }
}

/** What a sleeping job's hash has for `delay`. */
export const ASLEEP_DELAY_MS: number = Number(luaConstant('line/lua/keys', 'ASLEEP_DELAY'))
/** The first score of sleeping jobs in `delayed`. */
export const ASLEEP: string = luaConstant('line/lua/keys', 'ASLEEP')
/** The field of BullMQ's `meta` hash that says how far tenants are served: see `lua/shares.lua`. */
export const VIRTUAL_TIME: string = luaConstant('line/lua/keys', 'TIME_FIELD')

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

/** JSON for Lua, which refuses half a surrogate pair. The message of an error may end in one. */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  return text.includes('\\ud') ? JSON.stringify(value, wellFormed) : text
}

/** As a client writes it: half a surrogate pair becomes a replacement character. */
const wellFormed = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed() : value
