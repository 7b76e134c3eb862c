/** How scripts of ours are run on the keys of a queue. */
import type { ComposedScript } from './bullmq/composed-script.ts'

/** What a script of ours is given, by name. What is undefined is absent. */
export type Arguments = Readonly<Record<string, unknown>>

export interface LineRunner {
  readonly queueName: string
  run(script: ComposedScript, args: Arguments): Promise<unknown>
  /** The whole name of one of our keys. */
  keyOf(key: string): string
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
export function argumentsText(base: string, slots: number, args: Arguments): string {
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
