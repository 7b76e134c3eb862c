/**
 * Leases in a table of PostgreSQL, for projects that have PostgreSQL and no lock masters.
 *
 * A crash of the primary loses no lease (`synchronous_commit`). The promotion of an asynchronous
 * standby may: then two holders overlap, and fencing tokens still increase.
 */
import { LeaseLostError, ResourceTakenError } from '../../lock-errors.ts'
import type { Lease } from '../../lock/lease.ts'
import { LockClient } from '../lock-client.ts'
import { lockSettings, type LockOptions, type LockSettings } from '../service-settings.ts'
import { messageOf } from '../../message-of.ts'
import { labelOf, resourceNames } from '../../names.ts'
import { refuse } from '../../options.ts'
import { giveBack, inTime, take } from './pg.ts'
import type { PgListener, PgPool, PgQueryable } from './pg.ts'
import { listed, PostgresDriver, type Listed } from './postgres-driver.ts'
import { statementsFor, type Statements } from './statements.ts'

/** Which database, and the options of every lock service. */
export interface PostgresLocksOptions extends LockOptions {
  /** A `pg.Pool`, also through pgbouncer in transaction mode. It is not closed with the locks. */
  readonly pool: PgPool
  /**
   * The table of leases, created by `ready()` where it is missing. @defaultValue 'redlock_leases'
   */
  readonly table?: string
  /**
   * Makes a `pg.Client` with a session, not through pgbouncer in transaction mode. It hears of
   * releases. Without it a waiting `acquire` polls.
   */
  readonly listen?: () => PgListener
}

/** What the function of a transaction is given. */
export interface LockedTransaction {
  /** The connection of the transaction. */
  readonly client: PgQueryable
  /** Larger than that of every earlier lease and committed transaction on the resources. */
  readonly fencingToken: number
}

/** A `Lease`, or the lease that a processor is given. */
export type HeldResources = Pick<Lease, 'resource' | 'resources' | 'fencingToken'>

const NAME = /^[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$/

/**
 * Leases in a table of PostgreSQL.
 * @example
 * ```ts
 * const locks = new PostgresLocks({ pool: new Pool(), leaseMs: 5_000 })
 * await locks.ready()
 * new LockedWorker('invoices', processor, { connection, redlock: locks, resource })
 * ```
 */
export class PostgresLocks extends LockClient {
  readonly #pool: PgPool
  readonly #statements: Statements
  readonly #settings: LockSettings

  /** @throws TypeError for a bad option, naming it. */
  constructor(options: PostgresLocksOptions) {
    const settings = lockSettings(options, { pool: true, table: true, listen: true })
    const { pool, table = 'redlock_leases', listen } = options
    if (typeof (pool as PgPool | undefined)?.connect !== 'function') {
      refuse('pool', 'a pool of `pg`: new pg.Pool(…)', pool)
    }
    if (!NAME.test(table)) refuse('table', 'a name such as `redlock_leases` or `app.leases`', table)
    const quoted = table
      .split('.')
      .map((part) => `"${part}"`)
      .join('.')
    super(settings, new PostgresDriver(pool, settings, quoted, listen))
    this.#pool = pool
    this.#statements = statementsFor(quoted)
    this.#settings = settings
  }

  /**
   * Runs `write` in one transaction with the lock, so that no other holder writes before it
   * commits. Under a lease, the transaction begins only if no other lease followed it. It keeps
   * others out until it ends, even if the lease expires meanwhile. With a resource and no lease,
   * the row is the lock for the time of the transaction, and a live lease keeps it out.
   *
   * It waits for its turn and for the statements of `write` as long as the pool lets it. If the
   * server stands still, `connectionTimeoutMillis` and `query_timeout` of the pool end it. It waits
   * for its commit at most `maxLeaseMs`.
   * @throws LeaseLostError when another lease followed; ResourceTakenError when a lease is live;
   * Error that says so when it is not known whether the transaction was committed; else what
   * `write` throws, after a rollback.
   */
  async transaction<Result>(
    lock: HeldResources | string | readonly string[],
    write: (transaction: LockedTransaction) => Promise<Result>,
  ): Promise<Result> {
    const client = await take(this.#pool)
    let isBroken = true
    try {
      await inTime(client, { text: 'BEGIN', values: [] }, this.#settings)
      const fencingToken =
        typeof lock === 'object' && 'fencingToken' in lock
          ? await this.#hold(client, lock)
          : await this.#claim(client, this.namesOf(lock))
      const result = await write({ client, fencingToken })
      await this.#commit(client)
      isBroken = false
      return result
    } catch (error) {
      // rule: silent-server-delays-no-rollback
      await inTime(client, { text: 'ROLLBACK', values: [] }, this.#settings).then(
        () => (isBroken = false),
        () => undefined, // The connection is closed below.
      )
      throw error
    } finally {
      giveBack(client, isBroken)
    }
  }

  /** A text of PostgreSQL has no NUL. Its error would pass for a server that is away. */
  protected override namesOf(resource: string | readonly string[]): readonly string[] {
    const names = resourceNames(resource)
    if (names.some((name) => name.includes('\0'))) {
      refuse('resource', 'a string without NUL, which PostgreSQL cannot store', resource)
    }
    return names
  }

  async #commit(client: PgQueryable): Promise<void> {
    const { clock, maxLeaseMs } = this.#settings
    const commit = { text: 'COMMIT', values: [] }
    const limit = { clock, requestTimeoutMs: maxLeaseMs }
    const { command } = await inTime(client, commit, limit).catch((cause: unknown) => {
      // After an error the server has rolled back. A connection that ends says nothing of that.
      // rule: unanswered-commit-is-unknown
      if ((cause as { severity?: string }).severity === 'ERROR') throw cause
      const unknown = 'It is not known whether the transaction was committed'
      throw new Error(`${unknown}: ${messageOf(cause)}`, { cause })
    })
    // rule: rolled-back-commit-is-no-success
    if (command !== 'ROLLBACK') return
    throw new Error(
      'PostgreSQL rolled the transaction back: a statement of it had failed. ' +
        'Let `write` reject with the error of the statement, or use a savepoint.',
    )
  }

  async #hold(client: PgQueryable, lease: HeldResources): Promise<number> {
    const { resources, resource, fencingToken } = lease
    const values = [this.namespace, resources, fencingToken]
    const { rows } = await client.query({ text: this.#statements.hold, values })
    if (rows.length === resources.length) return fencingToken
    throw new LeaseLostError(
      resource,
      fencingToken,
      'another lease followed it, or it was released',
    )
  }

  async #claim(client: PgQueryable, resources: readonly string[]): Promise<number> {
    const values = [this.namespace, resources]
    await client.query({ text: this.#statements.lock, values })
    const { rows } = await client.query({ text: this.#statements.claim, values })
    const [row] = rows as readonly { fencing_token: string }[]
    if (row === undefined) throw await this.#taken(client, resources)
    return Number(row.fencing_token)
  }

  /** Who has the lease that keeps a transaction out. */
  async #taken(client: PgQueryable, resources: readonly string[]): Promise<ResourceTakenError> {
    for (const name of resources) {
      const { rows } = await client.query({
        text: this.#statements.inspect,
        values: [this.namespace, name],
      })
      const [found] = (rows as readonly Listed[]).filter(({ left_ms }) => left_ms > 0).map(listed)
      if (found) return new ResourceTakenError(name, found.holder, found.freeInMs, [])
    }
    return new ResourceTakenError(labelOf(resources), 'a lease that has just ended', 0, [])
  }
}
