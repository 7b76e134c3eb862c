/** The ledger's tables and statements. Each statement is atomic by itself. */

/**
 * No constraint makes `entries.job_id` unique, and none ties an entry to the one before: this
 * ledger must be able to go wrong, or a clean audit would prove nothing. The advisory lock lets
 * many workers start at once, since CREATE … IF NOT EXISTS alone can collide.
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

/** Parameters: customer, job. Returns balance, seal, posted. */
export const READ = `
  SELECT balance, seal, EXISTS (SELECT FROM entries WHERE job_id = $2) AS posted
  FROM accounts WHERE customer = $1`

/**
 * `update`: the fenced update of the account, with this number of values. Parameters after these:
 * customer, fencing token, job, worker, amount, balance before, balance after, seal. Returns seq,
 * or no row: refused.
 *
 * The entry's number is drawn while the account's row is locked, so the entries of a customer are
 * numbered in the order in which they were written.
 */
export const ENTER = (update: string, values: number): string => `
  WITH written AS (${update} RETURNING customer)
  INSERT INTO entries
    (customer, fencing_token, job_id, worker, amount, balance_before, balance_after, seal)
  SELECT ${Array.from({ length: 8 }, (_, index) => `$${values + index + 1}`).join(', ')} FROM written
  RETURNING seq`

/**
 * Parameters: customer, fencing token, job, worker. Returns current_token, or no row: no such
 * account. Run after a refusal; tokens only rise, so the one it notes is still above the refused
 * one.
 */
export const NOTE_REFUSAL = `
  INSERT INTO refusals (customer, fencing_token, job_id, worker, current_token)
  SELECT $1, $2, $3, $4, fencing_token FROM accounts WHERE customer = $1
  RETURNING current_token`
