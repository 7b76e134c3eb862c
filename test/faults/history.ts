/**
 * What clients did and saw, on one clock. Checkers judge a history; nothing is judged
 * while it is made. Times are `monotonicMs()`, which all processes of a machine share.
 */

export type MemberEvent =
  | {
      readonly kind: 'granted'
      readonly lease: string
      readonly resource: string
      readonly fencingToken: number
      /** Before the first command of the attempt left. */
      readonly attemptAt: number
      readonly at: number
      readonly trustedUntil: number
    }
  | { readonly kind: 'extended'; readonly lease: string; readonly trustedUntil: number }
  | { readonly kind: 'ended'; readonly lease: string; readonly at: number; readonly how: Ending }
  | {
      readonly kind: 'wrote'
      readonly lease: string
      readonly resource: string
      readonly entry: string
      /** The store took it; false when it had seen a newer fencing token. */
      readonly accepted: boolean
      /** The lease was still trusted when the store's reply was there. */
      readonly trusted: boolean
    }
  | { readonly kind: 'refused'; readonly status: string }
  | { readonly kind: 'paused'; readonly point: PausePoint }
  | { readonly kind: 'unsettled'; readonly what: string }
  | { readonly kind: 'problem'; readonly message: string }

export type Ending = 'released' | 'lost' | 'lapsed'

/** Where a holder can be stopped: around every message it sends. */
export const PAUSE_POINTS = [
  ...['before-acquire', 'in-acquire', 'after-grant', 'before-write', 'in-write', 'before-extend'],
  ...['in-extend', 'before-release', 'in-release'],
] as const
export type PausePoint = (typeof PAUSE_POINTS)[number]

/** One lease from the grant to its end. */
export interface LeaseRecord {
  readonly lease: string
  readonly resource: string
  readonly fencingToken: number
  readonly attemptAt: number
  readonly grantedAt: number
  trustedUntil: number
  endedAt: number | undefined
  how: Ending | undefined
}

export interface WriteRecord {
  readonly lease: string
  readonly resource: string
  readonly entry: string
  readonly accepted: boolean
  readonly trusted: boolean
}

export class History {
  readonly leases = new Map<string, LeaseRecord>()
  readonly writes: WriteRecord[] = []
  readonly unsettled: string[] = []
  readonly problems: string[] = []
  /** How often an attempt ended in which other way. */
  readonly refusals = new Map<string, number>()
  readonly pauses = new Map<PausePoint, number>()

  add(event: MemberEvent): void {
    switch (event.kind) {
      case 'granted': {
        const { lease, resource, fencingToken, attemptAt, at, trustedUntil } = event
        this.leases.set(lease, {
          lease,
          resource,
          fencingToken,
          attemptAt,
          grantedAt: at,
          trustedUntil,
          endedAt: undefined,
          how: undefined,
        })
        return
      }
      case 'extended': {
        const record = this.leases.get(event.lease)
        if (record !== undefined) record.trustedUntil = event.trustedUntil
        return
      }
      case 'ended': {
        const record = this.leases.get(event.lease)
        if (record === undefined) return
        record.endedAt = event.at
        record.how = event.how
        return
      }
      case 'wrote':
        this.writes.push(event)
        return
      case 'refused':
        count(this.refusals, event.status)
        return
      case 'paused':
        count(this.pauses, event.point)
        return
      case 'unsettled':
        this.unsettled.push(event.what)
        return
      case 'problem':
        this.problems.push(event.message)
        return
    }
  }

  ended(how: Ending): number {
    return [...this.leases.values()].filter((record) => record.how === how).length
  }

  /** Writes that the store refused because it had seen a newer token. */
  get staleWrites(): number {
    return this.writes.filter(({ accepted }) => !accepted).length
  }
}

/**
 * Until when the holder trusted the lease: its own release or loss, or the end of trust, whichever
 * is first.
 */
export function trustEnd({ trustedUntil, endedAt }: LeaseRecord): number {
  return Math.min(trustedUntil, endedAt ?? Infinity)
}

function count<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
