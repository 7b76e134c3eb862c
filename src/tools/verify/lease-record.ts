/** One lease as its events tell it. */

export interface LeaseRecord extends Omit<GrantedEvent, 'kind' | 'fencingToken'> {
  /** Resources, or one slot of a resource. */
  readonly names: readonly string[]
  fencingToken: number
  /**
   * Until when its holder trusted it, on the clock that all processes of its machine share, and on
   * the machine's wall clock, for comparison with other machines.
   */
  trustedUntilMs: number
  trustedUntilWallMs: number
  end: EndingKind | undefined
}

export function newRecord(event: GrantedEvent): LeaseRecord {
  const { resource, resources = [resource], monotonicMs, wallMs, trustedForMs } = event
  return {
    ...{ ...event, names: resources, end: undefined },
    trustedUntilMs: monotonicMs + trustedForMs,
    trustedUntilWallMs: wallMs + trustedForMs,
  }
}

/** What a later event of the same lease changes. */
export function update(record: LeaseRecord, event: Exclude<LeaseEvent, GrantedEvent>): void {
  record.fencingToken = event.fencingToken
  if (event.kind === 'extended') {
    record.trustedUntilMs = event.monotonicMs + event.trustedForMs
    record.trustedUntilWallMs = event.wallMs + event.trustedForMs
    return
  }
  record.end = event.kind
  record.trustedUntilMs = Math.min(record.trustedUntilMs, event.monotonicMs)
  record.trustedUntilWallMs = Math.min(record.trustedUntilWallMs, event.wallMs)
}

/** How many holders the resource of a name may have at once, as this holder says. */
export function slotsOf({ slots }: Pick<LeaseRecord, 'slots'>, name: string): number {
  return typeof slots === 'number' ? slots : (slots[withoutSlot(name)] ?? 1)
}

/** The resource of which a name may be a slot. */
export function withoutSlot(name: string): string {
  return name.replace(/#\d+$/, '')
}

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
  /** Holders that each resource may have at once: for all, or one by the name of each. */
  readonly slots: number | Readonly<Record<string, number>>
  readonly trustedForMs: number
  /** Where there are several; the lease covers all of them. */
  readonly resources?: readonly string[]
}

export type EndingKind = 'released' | 'handed-over' | 'lost'

export type LeaseEvent =
  | GrantedEvent
  | (EventBase & { readonly kind: 'extended'; readonly trustedForMs: number })
  | (EventBase & { readonly kind: EndingKind })

const NUMBERS = ['fencingToken', 'lease', 'seq', 'monotonicMs', 'wallMs'] as const
const TEXTS = ['resource', 'lock'] as const
/** In every line of a lease, so that most others need not be parsed. */
const MARK = '"lease:'

/**
 * Reads a line, or the object that it is of; undefined where it is about something else.
 * @throws Error that says why a line about a lease cannot be read.
 */
export function readLeaseEvent(line: string | object): LeaseEvent | undefined {
  if (typeof line === 'string' && !line.includes(MARK)) {
    if (line.includes('\0')) throw new Error('it is no text: unpack a compressed log first')
    return undefined
  }
  const fields = (typeof line === 'string' ? parsed(line) : line) as Readonly<
    Record<string, unknown>
  >
  const kind = KINDS.find((each) => fields['event'] === `lease:${each}`)
  if (kind === undefined) return undefined
  const problem = problemOf(kind, fields)
  if (problem !== undefined) throw new Error(problem)
  return { ...fields, kind } as unknown as LeaseEvent
}

function parsed(line: string): object {
  try {
    return Object(JSON.parse(line)) as object
  } catch {
    throw new Error('it is not whole JSON')
  }
}

function problemOf(
  kind: LeaseEvent['kind'],
  fields: Readonly<Record<string, unknown>>,
): string | undefined {
  const isGrant = kind === 'granted'
  const trust = isGrant || kind === 'extended' ? ['trustedForMs'] : []
  const numbers = [...NUMBERS, ...trust]
  const texts = [...TEXTS, ...(isGrant ? ['namespace', 'owner', 'machine'] : [])]
  const bad =
    numbers.find((name) => !Number.isFinite(fields[name])) ??
    texts.find((name) => typeof fields[name] !== 'string')
  if (bad !== undefined) return `its \`${bad}\` is missing or of another type`
  if (isGrant && !areSlots(fields['slots']))
    return 'its `slots` are no number, and no map of numbers'
  const { resources = [] } = fields
  const isList = Array.isArray(resources) && resources.every((one) => typeof one === 'string')
  return isList ? undefined : 'its `resources` is no list of names'
}

function areSlots(slots: unknown): boolean {
  const counts: unknown[] = typeof slots === 'object' && slots ? Object.values(slots) : [slots]
  return counts.every((count) => Number.isFinite(count))
}
