/**
 * Rows that remember the largest fencing token that wrote them, and refuse smaller ones. The check
 * and the write are one statement, so nothing can come between, and a refused write wrote nothing.
 *
 * A token that equals the stored one is accepted: one lease may write several times. A row without
 * a token (NULL) accepts any. A deleted row forgets its token: mark rows as deleted instead.
 */
import { StaleTokenError } from '../lock-errors.ts'
import { knownOptions, refuse } from '../options.ts'
import { tokenOf, type Fenced } from './token.ts'

/** Which table, and the columns that name its rows. */
export interface FencedTableOptions {
  /** `accounts` or `app.accounts`. */
  readonly table: string
  /** The columns that name a row: its primary key, or another unique one. */
  readonly key: readonly string[]
  /** A bigint column, which may be NULL. @defaultValue 'fencing_token' */
  readonly tokenColumn?: string
  /**
   * The database.
   * @defaultValue 'postgresql'
   */
  readonly dialect?: 'postgresql' | 'sqlite' | 'mysql'
}

/** A statement with its parameters. */
export interface Statement {
  /** SQL with placeholders. */
  readonly text: string
  /** What the placeholders stand for. */
  readonly values: unknown[]
}

/** Columns and their values. */
export type Row = Readonly<Record<string, unknown>>

/** A `pg.Pool` or `pg.Client`; for another database, an object around its driver. */
export interface FencedClient {
  /** Runs one statement. */
  query(
    text: string,
    values: unknown[],
  ): Promise<{
    /** Rows that the statement matched. */
    readonly rowCount: number | null
    readonly rows: readonly unknown[]
  }>
}

const OUT_OF_RANGE = '22003'
/** `ER_DUP_ENTRY` of MySQL. */
const DUPLICATE = 1062

/**
 * A table whose rows refuse a stale fencing token.
 * @example
 * ```ts
 * const accounts = new FencedTable({ table: 'accounts', key: ['id'] })
 * await accounts.write(pool, lease, { id: 'a' }, { balance: 10 })
 *
 * // Several statements under one token:
 * await client.query('BEGIN')
 * const account = await accounts.claim(client, lease, { id: 'a' })
 * await client.query('UPDATE accounts SET balance = balance + $1 WHERE id = $2', [10, 'a'])
 * await client.query('COMMIT')
 * ```
 */
export class FencedTable {
  readonly #table: string
  readonly #name: string
  readonly #key: readonly string[]
  readonly #token: string
  readonly #dialect: 'postgresql' | 'sqlite' | 'mysql'

  /** @throws TypeError for an unknown option, or a name that is not one of SQL. */
  constructor(options: FencedTableOptions) {
    knownOptions({ ...options }, { table: true, key: true, tokenColumn: true, dialect: true })
    const { table, key, tokenColumn = 'fencing_token', dialect } = options
    this.#dialect = dialect ?? 'postgresql'
    this.#name = table
    this.#table = table
      .split('.')
      .map((part) => this.#quoted('table', part))
      .join('.')
    if (key.length === 0) refuse('key', 'at least one column', key)
    this.#key = key
    for (const column of key) this.#quoted('key', column)
    this.#token = this.#quoted('tokenColumn', tokenColumn)
  }

  /**
   * Writes columns of a row, which is made where it is missing.
   * @throws StaleTokenError when a later lease has written the row.
   */
  async write(client: FencedClient, lease: Fenced, key: Row, columns: Row): Promise<void> {
    await this.#write(client, lease, key, this.writeStatements(lease, key, columns))
  }

  /**
   * Writes columns of rows that exist.
   * @returns how many rows were written: 0 where there is none.
   * @throws StaleTokenError when a later lease has written the row.
   */
  async update(client: FencedClient, lease: Fenced, key: Row, columns: Row): Promise<number> {
    const rowCount = await this.#run(client, this.updateStatement(lease, key, columns))
    if (rowCount === 0) await this.#refused(client, lease, key, true)
    return rowCount
  }

  /**
   * Raises the token of a row, and locks the row for the rest of the transaction: whatever the
   * transaction then writes is fenced. Makes the row, with `defaults`, where it is missing.
   * @returns the row. Call it first in a transaction.
   * @throws StaleTokenError when a later lease has written the row.
   */
  async claim(client: FencedClient, lease: Fenced, key: Row, defaults: Row = {}): Promise<Row> {
    await this.#write(client, lease, key, this.#statements(lease, key, defaults, {}))
    return (await this.#stored(client, key)) as Row
  }

  /**
   * The text of {@link FencedTable.update} for drivers that are called by hand. No row matched:
   * stale, or missing.
   */
  updateStatement(lease: Fenced, key: Row, columns: Row): Statement {
    const fencingToken = tokenOf(lease)
    const values: unknown[] = []
    const set = this.#equations('column', values, columns)
    const token = this.#placeholder(values, fencingToken, true)
    const where = this.#where(values, key)
    const limit = this.#placeholder(values, fencingToken, true)
    // rule: stale-update-matches-no-row
    const text = `UPDATE ${this.#table} SET ${[...set, `${this.#token} = ${token}`].join(', ')} WHERE ${where} AND (${this.#token} IS NULL OR ${this.#token} <= ${limit})`
    return { text, values }
  }

  /**
   * The texts of {@link FencedTable.write}. Run them in order until one matches a row: that one has
   * written. Where none does, the token is stale, and nothing was written. MySQL refuses the first
   * one with `ER_DUP_ENTRY` where the row is there: go on with the second. Where the row is missing
   * after that, another unique column has refused it.
   */
  writeStatements(lease: Fenced, key: Row, columns: Row): readonly Statement[] {
    return this.#statements(lease, key, columns, columns)
  }

  /** @param defaults the columns of a row that is missing. */
  #statements(lease: Fenced, key: Row, defaults: Row, columns: Row): readonly Statement[] {
    const values: unknown[] = []
    const row = { ...defaults, ...this.#keyOf(key) }
    const names = Object.keys(row).map((name) => this.#quoted('column', name))
    const places = Object.values(row).map((value) => this.#placeholder(values, value))
    const token = this.#placeholder(values, tokenOf(lease), true)
    const into = `INTO ${this.#table} (${names.join(', ')}, ${this.#token}) VALUES (${places.join(', ')}, ${token})`
    if (this.#dialect === 'mysql') {
      // ON DUPLICATE KEY UPDATE does not tell whether its condition held, and IGNORE cuts what is
      // too long.
      // rule: refused-write-writes-nothing
      const insert = { text: `INSERT ${into}`, values }
      return [insert, this.updateStatement(lease, key, columns)]
    }
    const keys = this.#key.map((column) => this.#quoted('key', column)).join(', ')
    const set = [...Object.keys(columns).map((name) => this.#quoted('column', name)), this.#token]
      .map((name) => `${name} = excluded.${name}`)
      .join(', ')
    const stored = `${this.#table}.${this.#token}`
    // rule: stale-write-matches-no-row
    const conflict = `ON CONFLICT (${keys}) DO UPDATE SET ${set} WHERE ${stored} IS NULL OR ${stored} <= excluded.${this.#token}`
    return [{ text: `INSERT ${into} ${conflict}`, values }]
  }

  async #write(
    client: FencedClient,
    lease: Fenced,
    key: Row,
    statements: readonly Statement[],
  ): Promise<void> {
    let duplicate: unknown
    for (const statement of statements) {
      const matched = await this.#run(client, statement).catch((error: unknown) => {
        const isThere = (error as { errno?: number }).errno === DUPLICATE
        if (!isThere || statement === statements.at(-1)) throw error
        duplicate = error
        return 0
      })
      if (matched > 0) return
    }
    await this.#refused(client, lease, key, duplicate !== undefined)
    throw duplicate // Of another unique column.
  }

  async #stored(client: FencedClient, key: Row): Promise<Row | undefined> {
    const values: unknown[] = []
    const text = `SELECT * FROM ${this.#table} WHERE ${this.#where(values, key)}`
    const { rows } = await client.query(text, values)
    return (rows as readonly Row[])[0]
  }

  #where(values: unknown[], key: Row): string {
    return this.#equations('key', values, this.#keyOf(key)).join(' AND ')
  }

  #equations(option: string, values: unknown[], row: Row): readonly string[] {
    return Object.entries(row).map(
      ([name, value]) => `${this.#quoted(option, name)} = ${this.#placeholder(values, value)}`,
    )
  }

  #keyOf(key: Row): Row {
    const given = Object.keys(key)
    const isKey = given.length === this.#key.length && this.#key.every((name) => name in key)
    if (!isKey) refuse('key', `an object with ${this.#key.join(', ')}`, given.join(', '))
    return key
  }

  #placeholder(values: unknown[], value: unknown, isToken = false): string {
    values.push(value)
    if (this.#dialect !== 'postgresql') return '?'
    return `$${values.length}${isToken ? '::bigint' : ''}`
  }

  #quoted(option: string, name: string): string {
    if (!/^[A-Za-z_][A-Za-z0-9_$]*$/.test(name)) refuse(option, 'a name of SQL', name)
    return this.#dialect === 'mysql' ? `\`${name}\`` : `"${name}"`
  }

  async #run(client: FencedClient, { text, values }: Statement): Promise<number> {
    try {
      return (await client.query(text, values)).rowCount ?? 0
    } catch (error) {
      if ((error as { code?: string }).code !== OUT_OF_RANGE) throw error
      const why = `A number is too large for \`${this.#name}\`. If it is the fencing token, make ${this.#token} a bigint.`
      throw new RangeError(why, { cause: error })
    }
  }

  /** @throws StaleTokenError, unless the row is missing and may be. */
  async #refused(
    client: FencedClient,
    lease: Fenced,
    key: Row,
    mayBeMissing: boolean,
  ): Promise<void> {
    const row = await this.#stored(client, key)
    // rule: missing-row-is-not-stale
    if (row === undefined && mayBeMissing) return
    const stored = row?.[this.#token.slice(1, -1)]
    const what = `${this.#name} ${Object.values(key).join(', ')}`
    throw new StaleTokenError(what, lease.fencingToken, stored == null ? undefined : Number(stored))
  }
}
