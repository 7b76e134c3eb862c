/**
 * What `src/redlock` has in Lua, in TypeScript, by name. `test/sim/scripts-equal-model.test.ts`
 * holds each of them against the Lua on a real server, reply by reply and key by key.
 */
import { defineScript, type Script } from '../../src/lua.ts'
import { keyspace, type Keyspace } from '../../src/redlock/keyspace.ts'
import { RESERVED } from '../../src/redlock/quorum.ts'
import { TOKENS_PER_GRANT } from '../../src/redlock/verbs.ts'
import { USUAL, type Asked } from '../../src/redlock/wire/calls.ts'
import type { Constants } from '../../src/redlock/wire/batch-script.ts'
import type { SimulatedMemory } from './simulated-memory.ts'

export type Reply = true | number | readonly (string | number | null)[]

interface Server {
  readonly memory: SimulatedMemory
  /** The server's TIME in microseconds. */
  readonly nowUs: number
}

/** One entry of a batch. */
export interface ProcedureCall extends Server {
  readonly asked: Asked
  readonly runId: string
  readonly constants: Constants
  readonly publish: (channel: string, message: string) => void
}

export interface ScriptCall extends Server {
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** What every procedure sees: the fields of its entry, and the record. */
interface Scene extends Omit<ProcedureCall, 'asked'>, Required<Omit<Asked, 'verb'>> {
  readonly keys: Keyspace
  readonly fenceTtlMs: number
  readonly maxClockSkewMs: number
  readonly nowMs: number
  readonly quarantineMs: number
}

type Procedure = (scene: Scene) => Reply

const procedures: Readonly<Record<string, Procedure>> = {
  acquire: enrolled(acquire),
  confirm: enrolled(confirm),
  extend: enrolled(extend),
  heal: enrolled(heal),
  release,
  'waited-for': waitedFor,
  inspect,
  trial: () => USUAL,
}

const scripts: Readonly<Record<string, (call: ScriptCall) => Reply>> = { enrol, waited, bootstrap }

export function simulateProcedure(call: ProcedureCall): Reply {
  const { memory, asked, runId, constants, nowUs, publish } = call
  const { namespace, fenceTtlMs, maxClockSkewMs } = constants
  const keys = keysOf(namespace)
  // Field by field, because a simulation does this a million times a minute.
  return named(
    procedures,
    asked.verb,
  )({
    memory,
    resources: asked.resources ?? [''],
    token: asked.token ?? '',
    fence: asked.fence ?? 0,
    leaseMs: asked.leaseMs ?? 0,
    waitMs: asked.waitMs ?? 0,
    waiter: asked.waiter ?? '',
    runId,
    constants,
    nowUs,
    publish,
    keys,
    nowMs: nowMsOf(call),
    fenceTtlMs: Number(fenceTtlMs),
    maxClockSkewMs: Number(maxClockSkewMs),
    quarantineMs: Number(memory.hash(keys.master).get('votesInMs') ?? '0'),
  })
}

/** Whether a batch of this one entry reported the server's time. */
export function readsTime(
  { verb }: ProcedureCall['asked'],
  memory: SimulatedMemory,
  { namespace }: Constants,
): boolean {
  if (verb === 'trial') return false
  if (verb !== 'release' && verb !== 'waited-for') return true
  return memory.exists(keysOf(namespace).flag)
}

const keyspaces = new Map<string, Keyspace>()

function keysOf(namespace: string): Keyspace {
  const known = keyspaces.get(namespace)
  if (known !== undefined) return known
  const keys = keyspace(namespace)
  keyspaces.set(namespace, keys)
  return keys
}

export function simulateScript(name: string, call: ScriptCall): Reply {
  return named(scripts, name)(call)
}

function named<Value>(all: Readonly<Record<string, Value>>, name: string): Value {
  const value = all[name]
  if (value === undefined) throw new Error(`There is no script \`${name}\` in the simulation`)
  return value
}

/** Every index is part of the script's contract, so a missing one is a mistake of the caller. */
function at<Value>(values: readonly Value[], index: number): Value {
  const value = values[index - 1]
  if (value === undefined) throw new Error(`The script was called without argument ${index}`)
  return value
}

function enrolled(procedure: Procedure): Procedure {
  return (scene) => {
    const { memory, keys, runId, constants } = scene
    const record = memory.hash(keys.master)
    const known =
      record.get('runId') === runId &&
      record.get('maxLeaseMs') === String(constants.maxLeaseMs) &&
      record.get('fleetSize') === String(constants.fleetSize)
    return known ? procedure(scene) : ['unenrolled']
  }
}

function acquire(scene: Scene): Reply {
  const { memory, keys, nowMs, quarantineMs, maxClockSkewMs, fenceTtlMs } = scene
  const { resources, token, leaseMs, fence: proposal, waiter } = scene
  if (quarantineMs > 0) return ['quarantined', quarantineMs]
  const aheadMs = proposal / 1000 - nowMs
  if (aheadMs > maxClockSkewMs) return ['skewed', Math.ceil(aheadMs)]
  if (isAbandoned(scene, token)) return ['abandoned']
  let counter = 0
  let mine = true
  for (const resource of resources) {
    const lease = keys.lease(resource)
    const holder = memory.get(lease)
    if (holder !== undefined && holder !== token) {
      return refused(scene, resource, holder, lease)
    }
    const named =
      memory.exists(keys.flag) && holder === undefined ? memory.get(keys.next(resource)) : undefined
    if (named !== undefined && (waiter === '' || !named.includes(waiter))) {
      return refused(scene, resource, RESERVED, keys.next(resource))
    }
    if (holder !== token) mine = false
    counter = Math.max(counter, counterOf(scene, resource))
  }
  if (mine) return ['granted', counter]
  const earliestUs = (nowMs + maxClockSkewMs - fenceTtlMs) * 1000
  const next = Math.max(Math.max(counter, earliestUs) + TOKENS_PER_GRANT, proposal)
  for (const resource of resources) {
    const lease = keys.lease(resource)
    if (!memory.exists(lease)) memory.set(lease, token, leaseMs)
    memory.set(keys.fence(resource), next.toFixed(0), fenceTtlMs)
    if (memory.exists(keys.flag)) memory.delete(keys.next(resource))
  }
  return next === proposal ? USUAL : ['granted', next]
}

/** A client that goes on waiting gets a place, or keeps the one it has. */
function refused(scene: Scene, resource: string, holder: string, holderKey: string): Reply {
  const { memory, keys, nowMs, constants, waitMs, waiter, resources: all } = scene
  const maxLeaseMs = Number(constants.maxLeaseMs)
  if (waitMs > 0) {
    const waiters = keys.waiters(resource)
    const ttlMs = Math.min(waitMs, maxLeaseMs)
    memory.rankedTrim(waiters, nowMs)
    memory.rankedAdd(waiters, waiter, nowMs + ttlMs, ttlMs)
    const stepMs = Math.min(2_000, Math.floor(maxLeaseMs / 2))
    const laterMs = (Math.floor(nowMs / stepMs) + 2) * stepMs
    if (laterMs < nowMs + waitMs) memory.rankedLater(waiters, waiter, laterMs)
    for (const other of all)
      if (other !== resource) memory.rankedRemove(keys.waiters(other), waiter)
    flag(scene, ttlMs)
  }
  if (memory.pttl(holderKey) > maxLeaseMs) memory.shorten(holderKey, maxLeaseMs)
  const position = all.length > 1 ? [all.indexOf(resource) + 1] : []
  return ['taken', holder, memory.pttl(holderKey), ...position]
}

function confirm(scene: Scene): Reply {
  const { memory, keys, resources, token, fence, fenceTtlMs } = scene
  for (const resource of resources) {
    if (memory.get(keys.lease(resource)) !== token) return ['lost']
  }
  let highest = 0
  for (const resource of resources) {
    const counter = Math.max(counterOf(scene, resource), fence)
    memory.set(keys.fence(resource), counter.toFixed(0), fenceTtlMs)
    highest = Math.max(highest, counter)
  }
  return highest === fence ? USUAL : ['counter', highest]
}

function extend(scene: Scene): Reply {
  const { memory, keys, resources, token, leaseMs, fence, fenceTtlMs } = scene
  let missing = false
  for (const resource of resources) {
    const holder = memory.get(keys.lease(resource))
    if (counterOf(scene, resource) > fence) return ['lost', holder ?? '']
    if (holder !== undefined && holder !== token) return ['lost', holder]
    if (holder === undefined) missing = true
  }
  if (missing) return ['missing']
  for (const resource of resources) {
    memory.lengthen(keys.lease(resource), leaseMs)
    memory.set(keys.fence(resource), fence.toFixed(0), fenceTtlMs)
  }
  if (scene.quarantineMs === 0 || !isAbandoned(scene, token)) return USUAL
  abandon(scene, token, tombstoneMs(scene))
  return ['healed']
}

function heal(scene: Scene): Reply {
  const { memory, keys, resources, token, leaseMs, fence, fenceTtlMs, quarantineMs } = scene
  if (isAbandoned(scene, token)) return ['abandoned']
  for (const resource of resources) {
    const holder = memory.get(keys.lease(resource))
    if (counterOf(scene, resource) > fence) return ['lost', holder ?? '']
    if (holder !== undefined && holder !== token) return ['lost', holder]
  }
  for (const resource of resources) {
    const lease = keys.lease(resource)
    if (memory.exists(lease)) memory.lengthen(lease, leaseMs)
    else memory.set(lease, token, leaseMs)
    memory.set(keys.fence(resource), fence.toFixed(0), fenceTtlMs)
  }
  if (quarantineMs > 0) abandon(scene, token, tombstoneMs(scene))
  return USUAL
}

function release(scene: Scene): Reply {
  const { memory, keys, resources, token, nowMs, publish, waiter } = scene
  const { leaseMs: tombstoneMs, waitMs: graceMs } = scene
  if (tombstoneMs > 0) abandon(scene, token, tombstoneMs)
  for (const resource of resources) {
    const [lease, line] = [keys.lease(resource), keys.waiters(resource)]
    const mine = memory.get(lease) === token
    const flagged = memory.exists(keys.flag)
    if (waiter !== '' && flagged) memory.rankedRemove(line, waiter)
    if (!mine) continue
    memory.delete(lease)
    if (!flagged || graceMs === 0) continue
    const named = memory.rankedFrom(line, nowMs).slice(0, 4).join(',')
    if (named === '') continue
    memory.set(keys.next(resource), named, graceMs)
    flag(scene, graceMs)
    publish(keys.releases, `${token.slice(0, 8)} ${named} ${resource}`)
  }
  return USUAL
}

function waitedFor({ memory, keys, resources, nowMs, waiter }: Scene): Reply {
  const places = [...resources.keys()].filter((place) => {
    const names = memory.rankedFrom(keys.waiters(resources[place] ?? ''), nowMs).slice(0, 2)
    return names.some((name) => !waiter.includes(`,${name},`))
  })
  if (!memory.exists(keys.flag) || places.length === 0) return USUAL
  return ['waited', ...places.map((place) => place + 1)]
}

function inspect(scene: Scene): Reply {
  const { memory, keys, resources } = scene
  const [resource = ''] = resources
  const lease = keys.lease(resource)
  const counter = memory.get(keys.fence(resource)) ?? null
  return ['seen', memory.get(lease) ?? null, memory.pttl(lease), counter]
}

function enrol({ memory, keys, args, nowUs }: ScriptCall): Reply {
  const [runId, maxLeaseMs, quarantineMs] = [at(args, 1), at(args, 2), at(args, 3)]
  const [durable, fleetSize, fenceTtlMs] = [at(args, 4), at(args, 5), at(args, 9)]
  const known = memory.hash(at(keys, 1))
  for (const [name, value] of Object.entries({ maxLeaseMs, fleetSize, fenceTtlMs })) {
    const stored = known.get(name)
    if (stored !== undefined && stored !== value) return ['mismatch', name, stored]
  }
  if (!known.has('runId') && at(args, 6) === '0') return ['foreign']
  let [quarantine, votesInMs] = [known.get('quarantine') ?? '', known.get('votesInMs') ?? '0']
  if (known.get('runId') !== runId) {
    const survives = known.has('runId') && known.get('durable') === '1' && durable === '1'
    if (!survives) [quarantine, votesInMs] = [`${at(args, 8)}@${nowUs}`, quarantineMs]
  }
  const founder = known.has('runId') ? (known.get('founder') ?? '') : at(args, 7)
  const record = { runId, maxLeaseMs, fleetSize, fenceTtlMs, durable, founder }
  memory.hashSet(at(keys, 1), { ...record, quarantine, votesInMs })
  return ['enrolled', Number(votesInMs), quarantine, founder, Math.floor(nowUs / 1000)]
}

function waited({ memory, keys, args }: ScriptCall): Reply {
  const known = memory.hash(at(keys, 1))
  if (known.get('quarantine') !== at(args, 1)) return 0
  const leftMs = Math.min(Number(known.get('votesInMs')), Number(at(args, 2)))
  memory.hashSet(at(keys, 1), { votesInMs: String(leftMs) })
  return leftMs
}

/** Of tests alone: a master is enrolled, and its quarantine is over. */
export const bootstrapScript: Script = defineScript(
  'bootstrap',
  `redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'fleetSize', ARGV[3],
    'quarantine', '', 'votesInMs', '0')
  return {'enrolled', 0}`,
)

function bootstrap({ memory, keys, args }: ScriptCall): Reply {
  const [runId, maxLeaseMs, fleetSize] = [at(args, 1), at(args, 2), at(args, 3)]
  const ended = { quarantine: '', votesInMs: '0' }
  memory.hashSet(at(keys, 1), { runId, maxLeaseMs, fleetSize, ...ended })
  return ['enrolled', 0]
}

/** A key never outlives the tombstone that every extension within a quarantine keeps. */
function tombstoneMs({ constants }: Scene): number {
  return 2 * Number(constants.maxLeaseMs)
}

function isAbandoned({ memory, keys }: Scene, token: string): boolean {
  return memory.exists(keys.flag) && memory.exists(keys.tombstone(token))
}

function abandon(scene: Scene, token: string, forMs: number): void {
  scene.memory.set(scene.keys.tombstone(token), '1', forMs)
  flag(scene, forMs)
}

/** For as long as it lives, every client looks for waiters, reservations and tombstones. */
function flag({ memory, keys }: Scene, forMs: number): void {
  if (forMs > memory.pttl(keys.flag)) memory.set(keys.flag, '1', forMs)
}

function nowMsOf({ nowUs }: Server): number {
  return Math.floor(nowUs / 1000)
}

function counterOf({ memory, keys }: Scene, resource: string): number {
  return Number(memory.get(keys.fence(resource)) ?? '0')
}

/** A reply as it would be if there were no short one for the usual outcome. */
export function inFull({ verb, fence }: Asked, reply: unknown): unknown {
  if (reply !== USUAL) return reply
  const usual: Readonly<Record<string, readonly unknown[]>> = {
    acquire: ['granted', fence],
    confirm: ['counter', fence],
    extend: ['extended'],
    heal: ['healed'],
    release: ['released'],
  }
  return usual[verb] ?? [verb]
}
