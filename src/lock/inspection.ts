/** What the servers say about one resource, for people who look for its holder. */

/** One master's view. */
export interface MasterView {
  /** `host:port`. */
  readonly master: string
  /** `owner` and the beginning of the token; undefined where the resource is free. */
  readonly holder?: string
  /** Milliseconds until the key expires. */
  readonly ttlMs?: number
  /** The largest fencing token that this master has granted or confirmed. */
  readonly counter?: number
  /** Why it gives no answer. */
  readonly problem?: string
}

/** Who holds one resource, and what each master says about it. */
export interface Inspection {
  /** The resource that was asked for. */
  readonly resource: string
  /** Who holds a quorum, and until when; undefined when no client does. */
  readonly holder?: {
    readonly name: string
    /** That of its grant; work to which it was passed on since has one of the next. */
    readonly fencingToken: number
    /** Milliseconds until another client could have it, if it is not extended. */
    readonly freeInMs: number
  }
  /** One entry for each master. */
  readonly masters: readonly MasterView[]
  /** Why it is not known who holds it; undefined when it is. */
  readonly unknown?: string
  /** Why no lease is granted now; undefined where leases are granted. */
  readonly ungranted?: string
}
