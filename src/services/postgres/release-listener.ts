/**
 * Hears of releases over one session, which is opened for the first waiter and again when it broke.
 */
import type { Clock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import type { Listening } from '../lock-driver.ts'
import { ignored, inTime, whenEnded, type PgListener } from './pg.ts'
import { CHANNEL } from './statements.ts'

/** While a client waits. */
const ASK_EVERY_MS = 1_000
/** A session that is silent for as long is given up. */
const SILENT_MS = 5_000

export class ReleaseListener {
  readonly #open: () => PgListener
  readonly #clock: Clock
  /** By namespace and resource, as the payload of an announcement has them. */
  readonly #waiters = new Map<string, Set<() => void>>()
  #session: PgListener | undefined
  #askedAt = -Infinity
  #isClosed = false

  constructor(open: () => PgListener, clock: Clock) {
    this.#open = open
    this.#clock = clock
  }

  listen(namespace: string, resources: readonly string[], wake: () => void): Listening {
    this.#connect()
    const keys = resources.map((resource) => JSON.stringify([namespace, resource]))
    for (const key of keys) getOrInsert(this.#waiters, key, () => new Set()).add(wake)
    return {
      again: () => {
        this.#connect()
      },
      stop: () => {
        for (const key of keys) {
          const waiters = this.#waiters.get(key)
          waiters?.delete(wake)
          if (waiters?.size === 0) this.#waiters.delete(key)
        }
      },
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#session !== undefined) await whenEnded(this.#session.end(), [this.#session])
  }

  /** Opens a session, or asks the one that is open: a network that is cut may say nothing of it. */
  #connect(): void {
    const now = this.#clock.now()
    if (this.#isClosed || now - this.#askedAt < ASK_EVERY_MS) return
    this.#askedAt = now
    const session = (this.#session ??= this.#opened())
    const limit = { clock: this.#clock, requestTimeoutMs: SILENT_MS }
    // PostgreSQL takes a second `LISTEN` for the first one.
    // rule: session-that-is-cut-off-is-opened-again
    inTime(session, { text: `LISTEN ${CHANNEL}`, values: [] }, limit).catch(() => {
      this.#leave(session)
      return whenEnded(session.end(), [session])
    })
  }

  #opened(): PgListener {
    const session = this.#open()
    // Without a session waiters only poll, so an error needs no report.
    session.on('error', () => {
      this.#leave(session)
    })
    session.on('end', () => {
      this.#leave(session)
    })
    session.on('notification', ({ payload }) => {
      const key = payload === undefined ? '' : normalized(payload)
      for (const wake of this.#waiters.get(key) ?? []) wake()
    })
    session.connect().catch(ignored) // Its queries reject, too.
    return session
  }

  #leave(session: PgListener): void {
    if (this.#session === session) this.#session = undefined
  }
}

/** PostgreSQL writes JSON with spaces. */
function normalized(payload: string): string {
  try {
    return JSON.stringify(JSON.parse(payload))
  } catch {
    return '' // Not ours.
  }
}
