/**
 * One script that knows every verb and runs those that the entries of a batch name. What all calls
 * of one client have in common is part of its text, not of every batch.
 */
import { defineScript, luaString, luaText, withTexts, type Script } from '../../lua.ts'
import { keyspace } from '../keyspace.ts'

/** What all calls of one client have in common; a script that lacks one has nil. */
export interface Constants {
  readonly namespace: string
  readonly maxLeaseMs?: number
  readonly fenceTtlMs?: number
  readonly maxClockSkewMs?: number
  readonly fleetSize?: number
}

export interface BatchScript extends Script {
  readonly constants: Constants
}

/** `lua/batch.lua`, for one client. A lock master is never a cluster, so no keys are named. */
export function batchScript(constants: Constants): BatchScript {
  const { namespace, maxLeaseMs, fenceTtlMs, maxClockSkewMs, fleetSize } = constants
  const keys = keyspace(namespace)
  const own: Readonly<Record<string, string | number | undefined>> = {
    ...{ fenceTtlMs, maxClockSkewMs },
    // Texts, as the record of a master has them: no script has to read numbers of it.
    ...{ maxLeaseMs: maxLeaseMs?.toString(), fleetSize: fleetSize?.toString() },
    leasePrefix: keys.lease(''),
    fencePrefix: keys.fence(''),
    waitersPrefix: keys.waiters(''),
    nextPrefix: keys.next(''),
    tombstonePrefix: keys.tombstone(''),
    flagKey: keys.flag,
    masterKey: keys.master,
    releasesChannel: keys.releases,
  }
  // Each stands where it is used: a variable of the script would cost every batch.
  const names = new RegExp(`(?<!')\\b(?:${Object.keys(own).join('|')})\\b`, 'g')
  const lua = luaText('redlock/lua/batch').replace(names, (name) => {
    const value = own[name]
    return typeof value === 'string' ? luaString(value) : String(value ?? 'nil')
  })
  return { ...defineScript('batch', withTexts(lua)), constants }
}
