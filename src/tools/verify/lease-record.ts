/** One lease as its events tell it. */
import type { GrantedEvent, EndingKind, LeaseEvent } from './lease-event.ts'

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

/** The resource of a name, and how many holders it may have at once. */
export function slotsOf(
  { slots }: Pick<LeaseRecord, 'slots'>,
  name: string,
): { readonly resource: string; readonly count: number } {
  const resource = name.replace(/#\d+$/, '')
  const count = typeof slots === 'number' ? slots : (slots[resource] ?? 1)
  return count > 1 ? { resource, count } : { resource: name, count }
}

/** Where conflicts of a name are looked for: the resource with all of its slots. */
export function groupOf(record: LeaseRecord, name: string): string {
  return `${record.namespace}: ${slotsOf(record, name).resource}`
}
