/**
 * The Lua scripts of the installed BullMQ, as its own connection class registers them. Composed
 * scripts run this text inside their own, so nothing of BullMQ is copied here.
 */
import { RedisConnection } from 'bullmq'

export interface BullmqScript {
  readonly numberOfKeys: number
  readonly lua: string
}

let scripts: ReadonlyMap<string, BullmqScript> | undefined

/** By name without a version. Empty for a BullMQ that registers none: BullMQ 5 and older. */
export function bullmqScripts(): ReadonlyMap<string, BullmqScript> {
  scripts ??= recordScripts()
  return scripts
}

function recordScripts(): ReadonlyMap<string, BullmqScript> {
  const found = new Map<string, BullmqScript>()
  const recorder = {
    defineCommand: (name: string, { numberOfKeys, lua }: BullmqScript) => {
      found.set(name.split(':')[0] ?? name, { numberOfKeys, lua })
    },
  }
  // `protected` in BullMQ's types; it only calls `defineCommand` on the client.
  const prototype = RedisConnection.prototype as unknown as {
    loadCommands?: (this: { readonly _client: object }, version: string) => void
  }
  prototype.loadCommands?.call({ _client: recorder }, 'any')
  return found
}
