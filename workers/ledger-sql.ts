/** The ledger's tables and statements. Each statement is atomic by itself. */

/**
 * No constraint makes `entries.job_id` unique, and none ties an entry to the one before: this ledger must
 * be able to go wrong, or a clean audit would prove nothing. The advisory lock lets many workers
 * start at once, since CREATE … IF NOT EXISTS alone can collide.
 */
export const CREATE_TABLES = `
  BEGIN;
  SELECT pg_advisory_xact_lock(7236115);
  CREATE TABLE IF NOT EXISTS accounts (
    customer text PRIMARY KEY,
    balance bigint NOT NULL DEFAULT 0,
    seal text NOT NULL DEFAULT '',
    fencing_token bigint NOT NULL
  );
  CREATE TABLE IF NOT EXISTS entries (
    seq bigserial PRIMARY KEY,
    job_id text NOT NULL,
    customer text NOT NULL,
    amount bigint NOT NULL,
    balance_before bigint NOT NULL,
    balance_after bigint NOT NULL,
    seal text NOT NULL,
    fencing_token bigint NOT NULL,
    worker text NOT NULL
  );
  CREATE INDEX IF NOT EXISTS entries_by_job ON entries (job_id);
  CREATE TABLE IF NOT EXISTS refusals (
    seq bigserial PRIMARY KEY,
    job_id text NOT NULL,
    customer text NOT NULL,
    fencing_token bigint NOT NULL,
    current_token bigint NOT NULL,
    worker text NOT NULL
  );
  COMMIT`

/**
 * Parameters: customer, fencing token. Returns a row if the claim stands.
 *
 * From then on no lower token can write. The account is read by a statement of its own, because this one
 * may have waited for a stale writer and would not see the entry that the writer left.
 */
export const CLAIM = `
  INSERT INTO accounts AS account (customer, fencing_token) VALUES ($1, $2)
  ON CONFLICT (customer) DO UPDATE SET fencing_token = excluded.fencing_token
    WHERE account.fencing_token <= excluded.fencing_token
  RETURNING customer`

/** Parameters: customer, job. Returns balance, seal, posted. */
export const READ = `
  SELECT balance, seal, EXISTS (SELECT FROM entries WHERE job_id = $2) AS posted
  FROM accounts WHERE customer = $1`

/**
 * Parameters: customer, fencing token, job, worker, amount, balance before, balance after, seal.
 * Returns seq, or no row: refused.
 *
 * The entry's number is drawn while the account's row is locked, so the entries of a customer are
 * numbered in the order in which they were written.
 */
export const POST = `
  WITH written AS (
    UPDATE accounts SET balance = $7, seal = $8, fencing_token = $2
    WHERE customer = $1 AND fencing_token <= $2
    RETURNING customer
  )
  INSERT INTO entries
    (customer, fencing_token, job_id, worker, amount, balance_before, balance_after, seal)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8 FROM written
  RETURNING seq`

/**
 * Parameters: customer, fencing token, job, worker. Returns current_token, or no row: no such account.
 * Run after a refusal; tokens only rise, so the one it notes is still above the refused one.
 */
export const NOTE_REFUSAL = `
  INSERT INTO refusals (customer, fencing_token, job_id, worker, current_token)
  SELECT $1, $2, $3, $4, fencing_token FROM accounts WHERE customer = $1
  RETURNING current_token`
