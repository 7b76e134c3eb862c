/** What the servers say about one resource, for people who look for its holder. */

/** One master's view. */
export interface MasterView {
  readonly master: string
  /** `owner` and the beginning of the token; undefined where nobody holds the resource. */
  readonly holder?: string
  /** Milliseconds until the key expires. */
  readonly ttlMs?: number
  /** The largest fencing token that this master has granted or confirmed. */
  readonly counter?: number
  /** Why it gives no answer. */
  readonly problem?: string
}

export interface Inspection {
  readonly resource: string
  /** Who holds a quorum, since when at the latest, and until when; undefined when nobody does. */
  readonly holder?: {
    readonly name: string
    /** That of its grant; work to which it was passed on since has one of the next. */
    readonly fencingToken: number
    /** Milliseconds until enough masters have dropped it for somebody else, if it is not extended. */
    readonly freeInMs: number
  }
  readonly masters: readonly MasterView[]
}
