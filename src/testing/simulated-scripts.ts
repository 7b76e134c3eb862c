/**
 * The scripts of `src/lock/scripts.ts` in TypeScript, by name. `test/sim/scripts-equal-model.test.ts` holds each of
 * them against the Lua on a real server, reply by reply and key by key.
 */
import type { SimulatedMemory } from './simulated-memory.ts'

export type Reply = readonly (string | number)[]

export interface ScriptCall {
  readonly memory: SimulatedMemory
  readonly keys: readonly string[]
  readonly args: readonly string[]
  /** The server's TIME in microseconds. */
  readonly nowUs: number
  readonly publish: (channel: string, message: string) => void
}

type SimulatedScript = (call: ScriptCall) => Reply

export const simulatedScripts: ReadonlyMap<string, SimulatedScript> = new Map([
  ['acquire', enrolled(acquire)],
  ['confirm', enrolled(confirm)],
  ['extend', enrolled(extend)],
  ['heal', enrolled(heal)],
  ['release', release],
  ['enrol', enrol],
  ['bootstrap', bootstrap],
])

/** Every index is part of the script's contract, so a missing one is a mistake of the caller. */
function at(values: readonly string[], index: number): string {
  const value = values[index - 1]
  if (value === undefined) throw new Error(`The script was called without argument ${index}`)
  return value
}

function enrolled(script: SimulatedScript): SimulatedScript {
  return (call) => {
    const record = call.memory.hash(at(call.keys, 1))
    const known = record.get('runId') === at(call.args, 1)
    if (!known || record.get('maxLeaseMs') !== at(call.args, 2)) {
      return ['unenrolled', nowMsOf(call)]
    }
    return script(call)
  }
}

function acquire(call: ScriptCall): Reply {
  const { memory, keys, args } = call
  const nowMs = nowMsOf(call)
  const [token, proposal] = [at(args, 3), Number(at(args, 5))]
  const quarantineMs = Number(memory.hash(at(keys, 1)).get('votesFromMs')) - nowMs
  if (quarantineMs > 0) return ['quarantined', nowMs, quarantineMs]
  const aheadMs = proposal / 1000 - nowMs
  if (aheadMs > Number(at(args, 7))) return ['skewed', nowMs, Math.ceil(aheadMs)]
  if (memory.exists(at(keys, 2))) return ['abandoned', nowMs]
  let counter = 0
  let mine = true
  for (const { lease, fence, waiters } of resourcesOf(keys)) {
    const holder = memory.get(lease)
    const count = counterOf(memory, fence)
    const handedOver = holder === at(args, 8) && count <= Number(at(args, 9))
    if (holder !== undefined && holder !== token && !handedOver) {
      const waitMs = Number(at(args, 10))
      if (waitMs > Math.max(0, memory.pttl(waiters))) memory.set(waiters, '1', waitMs)
      return ['taken', nowMs, holder, memory.pttl(lease)]
    }
    if (holder !== token) mine = false
    counter = Math.max(counter, count)
  }
  if (mine) return ['granted', nowMs, counter]
  const next = Math.max(counter + 1, proposal)
  for (const { lease, fence } of resourcesOf(keys)) {
    memory.set(lease, token, Number(at(args, 4)))
    memory.set(fence, next.toFixed(0), Number(at(args, 6)))
  }
  return ['granted', nowMs, next]
}

function confirm(call: ScriptCall): Reply {
  const { memory, keys, args } = call
  for (const { lease } of resourcesOf(keys)) {
    if (memory.get(lease) !== at(args, 3)) return ['lost', nowMsOf(call)]
  }
  let highest = 0
  for (const { fence } of resourcesOf(keys)) {
    const counter = Math.max(counterOf(memory, fence), Number(at(args, 4)))
    memory.set(fence, counter.toFixed(0), Number(at(args, 5)))
    highest = Math.max(highest, counter)
  }
  return ['counter', nowMsOf(call), highest]
}

function extend(call: ScriptCall): Reply {
  const { memory, keys, args } = call
  const nowMs = nowMsOf(call)
  let missing = false
  for (const { lease, fence } of resourcesOf(keys)) {
    const holder = memory.get(lease)
    if (counterOf(memory, fence) > Number(at(args, 5))) return ['lost', nowMs, holder ?? '']
    if (holder !== undefined && holder !== at(args, 3)) return ['lost', nowMs, holder]
    if (holder === undefined) missing = true
  }
  if (missing) return ['missing', nowMs]
  for (const { lease, fence } of resourcesOf(keys)) {
    memory.lengthen(lease, Number(at(args, 4)))
    memory.set(fence, at(args, 5), Number(at(args, 6)))
  }
  return [memory.exists(at(keys, 2)) ? 'healed' : 'extended', nowMs]
}

function heal(call: ScriptCall): Reply {
  const { memory, keys, args } = call
  const nowMs = nowMsOf(call)
  if (memory.exists(at(keys, 2))) return ['abandoned', nowMs]
  for (const { lease, fence } of resourcesOf(keys)) {
    const holder = memory.get(lease)
    if (counterOf(memory, fence) > Number(at(args, 5))) return ['lost', nowMs, holder ?? '']
    if (holder !== undefined && holder !== at(args, 3)) return ['lost', nowMs, holder]
  }
  for (const { lease, fence } of resourcesOf(keys)) {
    if (memory.exists(lease)) memory.lengthen(lease, Number(at(args, 4)))
    else memory.set(lease, at(args, 3), Number(at(args, 4)))
    memory.set(fence, at(args, 5), Number(at(args, 6)))
  }
  const quarantineMs = Number(memory.hash(at(keys, 1)).get('votesFromMs')) - nowMs
  if (quarantineMs > 0) memory.set(at(keys, 2), '1', quarantineMs)
  return ['healed', nowMs]
}

function release({ memory, keys, args, publish }: ScriptCall): Reply {
  if (at(args, 2) !== '0') memory.set(at(keys, 1), '1', Number(at(args, 2)))
  let deleted = 0
  for (let index = 2; index <= keys.length; index += 2) {
    const [lease, waiters] = [at(keys, index), at(keys, index + 1)]
    if (memory.get(lease) !== at(args, 1)) continue
    memory.delete(lease)
    deleted++
    if (!memory.exists(waiters)) continue
    memory.delete(waiters)
    publish(at(args, 3), at(args, index / 2 + 3))
  }
  return ['released', deleted]
}

function enrol({ memory, keys, args, nowUs }: ScriptCall): Reply {
  const [runId, maxLeaseMs, durable] = [at(args, 1), at(args, 2), at(args, 4)]
  const known = memory.hash(at(keys, 1))
  const knownLeaseMs = known.get('maxLeaseMs')
  if (knownLeaseMs !== undefined && knownLeaseMs !== maxLeaseMs) return ['mismatch', knownLeaseMs]
  const nowMs = Math.floor(nowUs / 1e6) * 1000 + Math.ceil((nowUs % 1e6) / 1000)
  let votesFromMs = Number(known.get('votesFromMs') ?? '0')
  if (known.get('runId') !== runId) {
    const kept = known.has('runId') && known.get('durable') === '1' && durable === '1'
    if (!kept) votesFromMs = nowMs + Number(at(args, 3))
  }
  memory.hashSet(at(keys, 1), { runId, maxLeaseMs, votesFromMs: votesFromMs.toFixed(0), durable })
  return ['enrolled', Math.max(0, votesFromMs - nowMs)]
}

function bootstrap({ memory, keys, args }: ScriptCall): Reply {
  const [runId, maxLeaseMs] = [at(args, 1), at(args, 2)]
  memory.hashSet(at(keys, 1), { runId, maxLeaseMs, votesFromMs: '0' })
  return ['enrolled', 0]
}

interface ResourceKeys {
  readonly lease: string
  readonly fence: string
  readonly waiters: string
}

/** From the third key on: lease, fence and waiters of each resource. */
function resourcesOf(keys: readonly string[]): readonly ResourceKeys[] {
  return Array.from({ length: (keys.length - 2) / 3 }, (_, index) => ({
    lease: at(keys, 3 * index + 3),
    fence: at(keys, 3 * index + 4),
    waiters: at(keys, 3 * index + 5),
  }))
}

function nowMsOf({ nowUs }: ScriptCall): number {
  return Math.floor(nowUs / 1000)
}

function counterOf(memory: SimulatedMemory, fence: string): number {
  return Number(memory.get(fence) ?? '0')
}
