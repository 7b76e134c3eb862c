/** Finished reports in PostgreSQL, one an operator, written under a fencing token. */
import pg from 'pg'
import type { OperatorReport } from './operator-report.ts'
import { StaleWriteError } from './ledger.ts'

export interface StoredReport {
  readonly report: OperatorReport
  readonly ageMs: number
}

const CREATE_TABLE = `
  BEGIN;
  SELECT pg_advisory_xact_lock(7236116);
  CREATE TABLE IF NOT EXISTS reports (
    operator text PRIMARY KEY,
    report jsonb,
    built_at timestamptz,
    builds int NOT NULL DEFAULT 0,
    fencing_token bigint NOT NULL
  );
  COMMIT`

/** Claims before it reads, as the ledger does. Parameters: operator, fencing token. */
const CLAIM = `
  INSERT INTO reports AS stored (operator, fencing_token) VALUES ($1, $2)
  ON CONFLICT (operator) DO UPDATE SET fencing_token = excluded.fencing_token
    WHERE stored.fencing_token <= excluded.fencing_token
  RETURNING report, extract(epoch FROM clock_timestamp() - built_at) * 1000 AS age_ms`

/** Parameters: operator, fencing token, report. */
const SAVE = `
  UPDATE reports SET report = $3, built_at = clock_timestamp(), builds = builds + 1
  WHERE operator = $1 AND fencing_token <= $2
  RETURNING operator`

export class ReportStore {
  readonly #pool: pg.Pool

  private constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  static async connect(databaseUrl: string): Promise<ReportStore> {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
    // An idle connection that breaks is replaced; the next query reports a server that is gone.
    pool.on('error', () => undefined)
    try {
      await pool.query(CREATE_TABLE)
    } catch (error) {
      await pool.end()
      throw error
    }
    return new ReportStore(pool)
  }

  /** The last report, if there is one. Throws a {@link StaleWriteError} after a newer lease. */
  async open(operator: string, fencingToken: number): Promise<StoredReport | undefined> {
    const { rows } = await this.#pool.query<{ report: OperatorReport | null; age_ms: string }>(
      CLAIM,
      [operator, fencingToken],
    )
    const [row] = rows
    if (row === undefined) throw await this.#refusal(operator, fencingToken)
    return row.report === null ? undefined : { report: row.report, ageMs: Number(row.age_ms) }
  }

  /** Throws a {@link StaleWriteError} when a newer lease has been seen. */
  async save(report: OperatorReport, fencingToken: number): Promise<void> {
    const { operator } = report
    const { rowCount } = await this.#pool.query(SAVE, [operator, fencingToken, report])
    if (rowCount === 0) throw await this.#refusal(operator, fencingToken)
  }

  /** How often each operator's report was built. */
  async builds(): Promise<ReadonlyMap<string, number>> {
    const { rows } = await this.#pool.query<{ operator: string; builds: number }>(
      'SELECT operator, builds FROM reports ORDER BY operator',
    )
    return new Map(rows.map(({ operator, builds }) => [operator, builds]))
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  async #refusal(operator: string, fencingToken: number): Promise<StaleWriteError> {
    const { rows } = await this.#pool.query<{ fencing_token: string }>(
      'SELECT fencing_token FROM reports WHERE operator = $1',
      [operator],
    )
    return new StaleWriteError(operator, fencingToken, Number(rows[0]?.fencing_token))
  }
}
