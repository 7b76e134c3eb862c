/**
 * A ledger in PostgreSQL that is safe with a lease, and only with a lease.
 *
 * A posting is `open` (claim, then read), arithmetic in the worker, `post` (write what was computed).
 * No transaction stays open in between: only the lease keeps other workers out. Should a lease be
 * lost without its holder knowing, the fencing token decides. `open` raises the account's token
 * *before* it reads, so whoever read earlier with a lower token can no longer write, and is told.
 */
import pg from 'pg'
import { audit, type Audit } from './ledger-audit.ts'
import { readRows } from './ledger-rows.ts'
import { CLAIM, CREATE_TABLES, NOTE_REFUSAL, POST, READ } from './ledger-sql.ts'

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

/** The store has seen a newer lease on this account, so the write was refused and noted. */
export class StaleWriteError extends Error {
  readonly code = 'STALE_WRITE'
  readonly customer: string
  readonly fencingToken: number
  readonly currentToken: number

  constructor(customer: string, fencingToken: number, currentToken: number) {
    super(
      `The ledger of ${customer} refused fencing token ${fencingToken}: a later lease has written ` +
        `or read it with ${currentToken}`,
    )
    this.name = 'StaleWriteError'
    this.customer = customer
    this.fencingToken = fencingToken
    this.currentToken = currentToken
  }
}

export class Ledger implements LedgerWriter {
  readonly #pool: pg.Pool

  private constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  /** Connects, and creates the tables where they are missing. */
  static async connect(databaseUrl: string): Promise<Ledger> {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
    // An idle connection that breaks is replaced by the pool; the next query reports a server that is gone.
    pool.on('error', () => undefined)
    try {
      await pool.query(CREATE_TABLES)
    } catch (error) {
      await pool.end()
      throw error
    }
    return new Ledger(pool)
  }

  /** Claims the account for this lease, then reads it. Throws a {@link StaleWriteError}. */
  async open(opening: Opening): Promise<OpenAccount> {
    const { jobId, customer, fencingToken } = opening
    const claimed = await this.#row(CLAIM, [customer, fencingToken])
    if (claimed === undefined) throw await this.#refusal(opening)
    const account = await this.#row(READ, [customer, jobId])
    if (account === undefined) throw new Error(`The ledger of ${customer} was deleted meanwhile`)
    return {
      balance: Number(account['balance']),
      seal: String(account['seal']),
      posted: account['posted'] === true,
    }
  }

  /** Writes what was computed from the account that `open` returned. Throws a {@link StaleWriteError}. */
  async post(posting: Posting): Promise<void> {
    const { jobId, customer, fencingToken, worker } = posting
    const { amount, balanceBefore, balanceAfter, seal } = posting
    const written = await this.#row(POST, [
      ...[customer, fencingToken, jobId, worker],
      ...[amount, balanceBefore, balanceAfter, seal],
    ])
    if (written === undefined) throw await this.#refusal(posting)
  }

  /** Reads everything and checks it. */
  /** `added`: the jobs in the order in which they were added, where that is the order to be kept. */
  async audit(added?: readonly string[]): Promise<Audit> {
    return audit(await readRows(this.#pool), added)
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  async #refusal({ customer, fencingToken, jobId, worker }: Opening): Promise<Error> {
    const noted = await this.#row(NOTE_REFUSAL, [customer, fencingToken, jobId, worker])
    if (noted === undefined) return new Error(`The ledger of ${customer} must be opened first`)
    return new StaleWriteError(customer, fencingToken, Number(noted['current_token']))
  }

  async #row(sql: string, values: unknown[]): Promise<Record<string, unknown> | undefined> {
    const { rows } = await this.#pool.query<Record<string, unknown>>(sql, values)
    return rows[0]
  }
}
