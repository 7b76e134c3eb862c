/**
 * Histories that nobody logged: leases one after the other, on machines whose wall clocks differ.
 */
import type { LeaseEvent } from '../../../src/tools/verify/lease-record.ts'

export interface Turn {
  readonly resource: number
  /** Which process holds it. */
  readonly lock: number
  readonly holdMs: number
  readonly gapMs: number
  readonly extensions: number
  readonly end: 'released' | 'handed-over' | 'lost' | 'lapsed'
}

export interface World {
  readonly turns: readonly Turn[]
  /** By how much the wall clock of each machine is wrong. */
  readonly wallErrorsMs: readonly number[]
  /** Two locks on each machine. */
  readonly locksPerMachine: number
}

/** The event in the log's own form. */
export type Line = Omit<LeaseEvent, 'kind'> & { readonly event: string } & Record<string, unknown>

/** A lease as it was, in true time. */
interface Held {
  readonly turn: Turn
  readonly fromMs: number
  readonly untilMs: number
  readonly fencingToken: number
}

const LEASE_MS = 100
const EPOCH_MS = 1_800_000_000_000

/**
 * `plant`: the lease at this index (of those that have a successor) is trusted for so long into its
 * successor.
 */
export function linesOf(
  { turns, wallErrorsMs, locksPerMachine }: World,
  plant?: { readonly index: number; readonly overlapMs: number },
): readonly (readonly Line[])[] {
  const held = leasesOf(turns)
  const planted = plant && pairsOf(held)[plant.index]
  const drafts = held.flatMap((lease, index) => {
    const longer =
      lease === planted?.[0] ? planted[1].fromMs - lease.untilMs + (plant?.overlapMs ?? 0) : 0
    return draftsOf(lease, index, longer)
  })
  const logs = new Map<number, { atMs: number; line: (seq: number) => Line }[]>()
  for (const { atMs, lock, fields } of drafts) {
    const machine = Math.floor(lock / locksPerMachine) % wallErrorsMs.length
    const about = {
      lock: `lock-${lock}`,
      // Every machine's monotonic clock began at another time.
      monotonicMs: atMs + 1_000_000 * machine,
      wallMs: EPOCH_MS + atMs + (wallErrorsMs[machine] ?? 0),
      ...(fields.event === 'lease:granted' && {
        machine: `machine-${machine}`,
        namespace: 'n',
        owner: 'o',
        slots: 1,
      }),
    }
    const log = logs.get(lock) ?? []
    log.push({ atMs, line: (seq) => ({ ...fields, ...about, seq }) as Line })
    logs.set(lock, log)
  }
  return [...logs.values()].map((log) =>
    log.sort((a, b) => a.atMs - b.atMs).map(({ line }, index) => line(index + 1)),
  )
}

/** Neighbours on a resource: whose trust could reach into whose. */
export function pairsOf(held: readonly Held[]): readonly (readonly [Held, Held])[] {
  return held.flatMap((lease, index) => {
    const next = held.slice(index + 1).find(({ turn }) => turn.resource === lease.turn.resource)
    return next === undefined ? [] : [[lease, next] as const]
  })
}

export function leasesOf(turns: readonly Turn[]): readonly Held[] {
  const freeFrom = new Map<number, number>()
  let fencingToken = 0
  return turns.map((turn) => {
    const fromMs = (freeFrom.get(turn.resource) ?? 0) + turn.gapMs
    const untilMs = fromMs + turn.holdMs * (turn.extensions + 1)
    freeFrom.set(turn.resource, untilMs)
    return { turn, fromMs, untilMs, fencingToken: ++fencingToken }
  })
}

interface Draft {
  readonly atMs: number
  readonly lock: number
  readonly fields: { readonly event: string } & Record<string, unknown>
}

/** Each renewal comes before the trust that it prolongs is over. */
function draftsOf(
  { turn, fromMs, untilMs, fencingToken }: Held,
  index: number,
  longerMs: number,
): readonly Draft[] {
  const { lock, resource, holdMs, extensions, end } = turn
  const about = { resource: `r${resource}`, fencingToken, lease: index }
  const endMs = untilMs + longerMs
  const trustedUntil = (last: boolean, atMs: number): number =>
    last ? endMs - atMs + (end === 'lapsed' ? 0 : LEASE_MS) : holdMs + LEASE_MS
  const draft = (atMs: number, event: string, more: object = {}): Draft => ({
    ...{ atMs, lock },
    fields: { event: `lease:${event}`, ...about, ...more },
  })
  return [
    draft(fromMs, 'granted', { trustedForMs: trustedUntil(extensions === 0, fromMs) }),
    ...Array.from({ length: extensions }, (_, number) => {
      const atMs = fromMs + holdMs * (number + 1)
      return draft(atMs, 'extended', {
        trustedForMs: trustedUntil(number + 1 === extensions, atMs),
      })
    }),
    // One that lapsed is noticed late.
    draft(end === 'lapsed' ? endMs + 30 : endMs, end === 'lapsed' ? 'lost' : end),
  ]
}
