/**
 * Hears of releases over one session, which is opened for the first waiter and again when it broke.
 */
import type { Clock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import type { Listening } from '../lock-driver.ts'
import { whenEnded, type PgListener } from './pg.ts'
import { CHANNEL } from './statements.ts'

const REOPEN_MS = 1_000

export class ReleaseListener {
  readonly #open: () => PgListener
  readonly #clock: Clock
  /** By namespace and resource, as the payload of an announcement has them. */
  readonly #waiters = new Map<string, Set<() => void>>()
  #session: PgListener | undefined
  #openedAt = -Infinity
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

  #connect(): void {
    const now = this.#clock.now()
    if (this.#session !== undefined || this.#isClosed || now - this.#openedAt < REOPEN_MS) return
    this.#openedAt = now
    const session = this.#open()
    this.#session = session
    const gone = (): void => {
      if (this.#session === session) this.#session = undefined
    }
    // Without a session waiters only poll, so an error needs no report.
    session.on('error', gone)
    session.on('end', gone)
    session.on('notification', ({ payload }) => {
      const key = payload === undefined ? '' : normalized(payload)
      for (const wake of this.#waiters.get(key) ?? []) wake()
    })
    session
      .connect()
      .then(() => session.query({ text: `LISTEN ${CHANNEL}`, values: [] }))
      .catch(() => {
        gone()
        return whenEnded(session.end(), [session])
      })
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
