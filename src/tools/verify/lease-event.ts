/** One event of a lease, as a line of the log has it. Fields are those of `lock/lease-log.ts`. */

const KINDS = ['granted', 'extended', 'released', 'handed-over', 'lost'] as const

interface EventBase {
  readonly resource: string
  readonly fencingToken: number
  /** The instance that holds the lease, the lease's number in it, and the number of the line. */
  readonly lock: string
  readonly lease: number
  readonly seq: number
  /** On the machine's monotonic clock, and on its wall clock. */
  readonly monotonicMs: number
  readonly wallMs: number
}

export interface GrantedEvent extends EventBase {
  readonly kind: 'granted'
  readonly namespace: string
  readonly owner: string
  readonly machine: string
  readonly slots: number
  readonly trustedForMs: number
  /** Where there are several; the lease covers all of them. */
  readonly resources?: readonly string[]
}

interface ExtendedEvent extends EventBase {
  readonly kind: 'extended'
  readonly trustedForMs: number
}

export type EndingKind = 'released' | 'handed-over' | 'lost'

interface EndedEvent extends EventBase {
  readonly kind: EndingKind
}

export type LeaseEvent = GrantedEvent | ExtendedEvent | EndedEvent

export type Reading =
  | { readonly status: 'event'; readonly event: LeaseEvent }
  /** A line about something else. */
  | { readonly status: 'other' }
  | { readonly status: 'unreadable'; readonly problem: string }

const NUMBERS = ['fencingToken', 'lease', 'seq', 'monotonicMs', 'wallMs'] as const
const TEXTS = ['resource', 'lock'] as const
/** In every line of a lease, so that most others need not be parsed. */
const MARK = '"lease:'

/** Reads a line, or the object that it is of. */
export function readLeaseEvent(line: string | object): Reading {
  if (typeof line === 'string' && !line.includes(MARK)) return { status: 'other' }
  const value = typeof line === 'string' ? parsed(line) : line
  if (value === undefined) return { status: 'unreadable', problem: 'it is not whole JSON' }
  const fields = value as Readonly<Record<string, unknown>>
  const kind = KINDS.find((each) => fields['event'] === `lease:${each}`)
  if (kind === undefined) return { status: 'other' }
  const problem = problemOf(kind, fields)
  if (problem !== undefined) return { status: 'unreadable', problem }
  return { status: 'event', event: { ...fields, kind } as unknown as LeaseEvent }
}

function parsed(line: string): object | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

function problemOf(
  kind: LeaseEvent['kind'],
  fields: Readonly<Record<string, unknown>>,
): string | undefined {
  const isGrant = kind === 'granted'
  const trust = isGrant || kind === 'extended' ? ['trustedForMs'] : []
  const numbers = [...NUMBERS, ...trust, ...(isGrant ? ['slots'] : [])]
  const texts = [...TEXTS, ...(isGrant ? ['namespace', 'owner', 'machine'] : [])]
  const bad =
    numbers.find((name) => !Number.isFinite(fields[name])) ??
    texts.find((name) => typeof fields[name] !== 'string')
  if (bad !== undefined) return `its \`${bad}\` is missing or of another type`
  const { resources = [] } = fields
  const isList = Array.isArray(resources) && resources.every((one) => typeof one === 'string')
  return isList ? undefined : 'its `resources` is no list of names'
}
