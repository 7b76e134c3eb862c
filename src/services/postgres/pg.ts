/** What is needed of `pg`, and asked of it. Its classes fit, so this package does not load it. */
import { systemClock, withinMs, type Clock } from '../../clock.ts'
import type { LockSettings } from '../service-settings.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import type { Listening } from '../lock-driver.ts'
import { CHANNEL } from './statements.ts'

export interface PgRows {
  readonly rows: readonly unknown[]
  /** What the server did, such as `COMMIT`. */
  readonly command?: string
}

export interface PgQuery {
  readonly text: string
  readonly values: unknown[]
}

/** What runs statements. */
export interface PgQueryable {
  /** Runs one statement. */
  query(query: PgQuery): Promise<PgRows>
}

/** A connection of a pool. */
export interface PgPoolClient extends PgQueryable {
  /** With `true` the connection is closed instead of used again. */
  release(destroy?: boolean): void
  /** Hears of a broken connection. */
  on(event: 'error', heard: (error: Error) => void): unknown
  /** Ends that. */
  off(event: 'error', heard: (error: Error) => void): unknown
}

/** A `pg.Pool`, directly or through pgbouncer in any of its modes. */
export interface PgPool extends PgQueryable {
  /** Takes a connection out of the pool. */
  connect(taken: (error: Error | undefined, client: PgPoolClient | undefined) => void): void
}

/** A `pg.Client` that has its own session: not through pgbouncer in transaction mode. */
export interface PgListener extends PgQueryable {
  /** Opens the connection. */
  connect(): Promise<unknown>
  /** Hears of releases, and of a broken connection. */
  on(event: 'notification', heard: (message: { payload?: string | undefined }) => void): unknown
  on(event: 'error', heard: (error: Error) => void): unknown
  on(event: 'end', heard: () => void): unknown
  /** Closes the connection. */
  end(): Promise<void>
}

const ignored = (): void => undefined

type Limit = Pick<LockSettings, 'clock' | 'requestTimeoutMs'>

/** A statement that waits for no lock. @throws Error where the server does not answer in time. */
export async function inTime(
  client: PgQueryable,
  query: PgQuery,
  { clock, requestTimeoutMs }: Limit,
): Promise<PgRows> {
  // The `query_timeout` of `pg` also passes while this process stands still and the answer is here.
  // rule: postgres-answer-that-came-in-time-counts
  const rows = await withinMs(clock, requestTimeoutMs, client.query(query))
  if (rows === undefined) throw new Error(`PostgreSQL did not answer within ${requestTimeoutMs} ms`)
  return rows
}

/** One statement on a connection of the pool, which is closed where it failed. */
export async function ask(pool: PgPool, query: PgQuery, limit: Limit): Promise<PgRows> {
  const client = await take(pool)
  let isBroken = true
  try {
    const rows = await inTime(client, query, limit)
    isBroken = false
    return rows
  } finally {
    giveBack(client, isBroken)
  }
}

/**
 * A connection that breaks says so to its listeners, or ends the process; its queries fail. It may
 * break in the turn in which it is there.
 */
export function take(pool: PgPool): Promise<PgPoolClient> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client) => {
      // rule: new-connection-breaks-no-process
      client?.on('error', ignored)
      if (client === undefined) reject(error ?? new Error('The pool has no connection'))
      else resolve(client)
    })
  })
}

export function giveBack(client: PgPoolClient, isBroken: boolean): void {
  client.off('error', ignored)
  client.release(isBroken)
}

/** How long a server has to end a session in order. */
const END_LIMIT_MS = 300

/**
 * Waits until the end of sessions has come. A server that stands still would keep `pg` waiting
 * without a limit, and the process alive.
 */
export async function whenEnded(
  ending: Promise<unknown>,
  sessions: Iterable<unknown>,
): Promise<void> {
  const isEnded = ending.then(
    () => true,
    () => true,
  )
  // rule: silent-server-keeps-no-session
  if (await withinMs(systemClock, END_LIMIT_MS, isEnded)) return
  for (const session of sessions)
    (session as Partial<ClientInternals>).connection?.stream?.destroy()
}

/** What a client of `pg` keeps to itself: it has no call that gives a server up. */
interface ClientInternals {
  readonly connection: { readonly stream?: { destroy(): void } }
}

/** While a client waits. */
const ASK_EVERY_MS = 1_000
/** A session that is silent for as long is given up. */
const SILENT_MS = 5_000

/** Hears of releases over one session: opened for the first waiter, and again when it broke. */
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
