/** Finished reports in PostgreSQL, one an operator, written under a fencing token. */
import pg from 'pg'
import type { OperatorReport } from './operator-report.ts'
import { FencedTable } from '../src/fenced/index.ts'

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

const READ = `
  SELECT report, extract(epoch FROM clock_timestamp() - built_at) * 1000 AS age_ms
  FROM reports WHERE operator = $1`

/** Parameters: operator, report. */
const SAVE = `
  UPDATE reports SET report = $2, built_at = clock_timestamp(), builds = builds + 1
  WHERE operator = $1`

const REPORTS = new FencedTable({ table: 'reports', key: ['operator'] })

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

  /** The last report, if there is one. Claims before it reads, as the ledger does. @throws StaleTokenError */
  async open(operator: string, fencingToken: number): Promise<StoredReport | undefined> {
    await REPORTS.write(this.#pool, { fencingToken }, { operator }, {})
    const { rows } = await this.#pool.query<{ report: OperatorReport | null; age_ms: string }>(
      READ,
      [operator],
    )
    const [row] = rows
    if (row === undefined || row.report === null) return undefined
    return { report: row.report, ageMs: Number(row.age_ms) }
  }

  /** @throws StaleTokenError when a newer lease has been seen. */
  async save(report: OperatorReport, fencingToken: number): Promise<void> {
    const { operator } = report
    const client = await this.#pool.connect()
    try {
      await client.query('BEGIN')
      await REPORTS.claim(client, { fencingToken }, { operator })
      await client.query(SAVE, [operator, report])
      await client.query('COMMIT')
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    } finally {
      client.release()
    }
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
}
