/**
 * A ledger in PostgreSQL that is safe with a lease, and only with a lease. `FencedTable` checks the
 * tokens.
 *
 * A posting is `open` (claim, then read), arithmetic in the worker, `post` (write what was
 * computed). No transaction stays open in between: only the lease keeps other workers out. Should a
 * lease be lost without its holder knowing, the fencing token decides. `open` raises the account's
 * token
 * *before* it reads: a holder that read earlier with a lower token can no longer write, and is
 * told.
 */
import pg from 'pg'
import { FencedTable, StaleTokenError } from '../src/fenced/index.ts'
import { audit, type Audit } from './ledger-audit.ts'
import { readRows } from './ledger-rows.ts'
import { CREATE_TABLES, ENTER, NOTE_REFUSAL, READ } from './ledger-sql.ts'

const ACCOUNTS = new FencedTable({ table: 'accounts', key: ['customer'] })

export interface OpenAccount {
  readonly balance: number
  readonly seal: string
  /** An earlier run of this job has posted already, and died before it could say so. */
  readonly posted: boolean
}

export interface Opening {
  readonly jobId: string
  readonly customer: string
  readonly fencingToken: number
  readonly worker: string
}

export interface Posting extends Opening {
  readonly amount: number
  readonly balanceBefore: number
  readonly balanceAfter: number
  readonly seal: string
}

/** What a posting job does to a ledger. */
export interface LedgerWriter {
  open(opening: Opening): Promise<OpenAccount>
  post(posting: Posting): Promise<void>
}

export class Ledger implements LedgerWriter {
  readonly #pool: pg.Pool

  private constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  /** Connects, and creates the tables where they are missing. */
  static async connect(databaseUrl: string): Promise<Ledger> {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
    // An idle connection that breaks is replaced by the pool; the next query reports a server that
    // is gone.
    pool.on('error', () => undefined)
    try {
      await pool.query(CREATE_TABLES)
    } catch (error) {
      await pool.end()
      throw error
    }
    return new Ledger(pool)
  }

  /**
   * Claims the account for this lease: from then on no lower token can write. Then reads it, by a
   * second statement, because the claim may have waited for a stale writer and would not see the
   * entry that the writer left.
   * @throws StaleTokenError, after it noted the refusal.
   */
  async open(opening: Opening): Promise<OpenAccount> {
    const { jobId, customer } = opening
    try {
      await ACCOUNTS.write(this.#pool, opening, { customer }, {})
    } catch (error) {
      throw error instanceof StaleTokenError ? await this.#refusal(opening) : error
    }
    const account = await this.#row(READ, [customer, jobId])
    if (account === undefined) throw new Error(`The ledger of ${customer} was deleted meanwhile`)
    return {
      balance: Number(account['balance']),
      seal: String(account['seal']),
      posted: account['posted'] === true,
    }
  }

  /**
   * Writes what was computed from the account that `open` returned.
   * @throws StaleTokenError, after it noted the refusal.
   */
  async post(posting: Posting): Promise<void> {
    const { jobId, customer, fencingToken, worker } = posting
    const { amount, balanceBefore, balanceAfter, seal } = posting
    const account = { balance: balanceAfter, seal }
    const { text, values } = ACCOUNTS.updateStatement(posting, { customer }, account)
    const written = await this.#row(ENTER(text, values.length), [
      ...[...values, customer, fencingToken, jobId, worker],
      ...[amount, balanceBefore, balanceAfter, seal],
    ])
    if (written === undefined) throw await this.#refusal(posting)
  }

  /** Reads everything and checks it. */
  /**
   * `added`: the jobs in the order in which they were added, where that is the order to be kept.
   */
  async audit(added?: readonly string[]): Promise<Audit> {
    return audit(await readRows(this.#pool), added)
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  async #refusal({ customer, fencingToken, jobId, worker }: Opening): Promise<Error> {
    const noted = await this.#row(NOTE_REFUSAL, [customer, fencingToken, jobId, worker])
    if (noted === undefined) return new Error(`The ledger of ${customer} must be opened first`)
    return new StaleTokenError(`account ${customer}`, fencingToken, Number(noted['current_token']))
  }

  async #row(sql: string, values: unknown[]): Promise<Record<string, unknown> | undefined> {
    const { rows } = await this.#pool.query<Record<string, unknown>>(sql, values)
    return rows[0]
  }
}
