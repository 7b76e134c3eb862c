/**
 * The statements on the table of leases: a row for every resource that was leased lately, each
 * statement one transaction. All times are those of the server's `clock_timestamp()`.
 *
 * A fencing token is the largest of three: the row's last one plus 1, the floor plus 1, and the
 * server's clock in microseconds. The floor is the largest token of the rows that were deleted. It
 * stands in the row of the resource '', which no client can name. So tokens increase whatever the
 * clock does, and also where a promoted standby or a restored backup lacks the last rows.
 *
 * Locks on rows: a transaction of the holder takes KEY SHARE, a renewal NO KEY UPDATE, an acquire
 * UPDATE. So renewals go on during a transaction of the holder, and no one acquires before its end.
 */

export const CHANNEL = 'bullmq_redlock_released'

const KEY = 'namespace = $1 AND resource = ANY($2::text[])'
const LATER = "clock_timestamp() + $4::float8 * interval '1 millisecond'"
const NOW_TOKEN = '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint'
const DAY_MICROSECONDS = 86_400_000_000
/** Stands for the name of the table. */
const TABLE = '{table}'

const locked = (lock: string, where = ''): string =>
  `SELECT * FROM ${TABLE} WHERE ${KEY} ${where} ORDER BY resource FOR ${lock}`
// rule: token-above-deleted-rows
const FLOOR = `(SELECT fencing_token + 1 FROM ${TABLE} WHERE namespace = $1 AND resource = '')`
// GREATEST passes over a floor that is not there.
const NEXT_TOKEN = `GREATEST(max(fencing_token) + 1, ${FLOOR}, ${NOW_TOKEN})`
const NAMED = `
    INSERT INTO ${TABLE} (namespace, resource)
    SELECT $1, name FROM unnest($2::text[]) AS name ORDER BY name ON CONFLICT`

type Name =
  | ('create' | 'insert' | 'acquire' | 'extend' | 'release' | 'abandon' | 'await' | 'lock')
  | ('inspect' | 'leases' | 'prune' | 'hold' | 'claim')

export type Statements = Readonly<Record<Name, string>>

const STATEMENTS: Statements = {
  create: `
    CREATE TABLE ${TABLE} (
      namespace text NOT NULL,
      resource text NOT NULL,
      holder text,
      fencing_token bigint NOT NULL DEFAULT 0,
      expires_at timestamptz NOT NULL DEFAULT 'epoch',
      awaited_until timestamptz NOT NULL DEFAULT 'epoch',
      refused text,
      PRIMARY KEY (namespace, resource)
    )`,
  insert: `${NAMED} DO NOTHING`,
  /** $1 namespace, $2 resources, $3 token, $4 ms. Returns every resource, and the token granted. */
  acquire: `
    WITH found AS MATERIALIZED (${locked('UPDATE SKIP LOCKED')}),
    free AS (
      SELECT ${NEXT_TOKEN} AS next_token FROM found
      HAVING count(*) = cardinality($2::text[])
        AND bool_and(expires_at <= clock_timestamp() AND refused IS DISTINCT FROM $3)
    ),
    claimed AS (
      UPDATE ${TABLE} SET holder = $3, fencing_token = next_token, expires_at = ${LATER}
      FROM free WHERE ${KEY} RETURNING fencing_token
    )
    SELECT resource, holder, (SELECT max(fencing_token) FROM claimed) AS granted,
      GREATEST(0, extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left_ms
    FROM ${TABLE} WHERE ${KEY} ORDER BY resource`,
  extend: `
    WITH mine AS MATERIALIZED (
      ${locked('NO KEY UPDATE', 'AND holder = $3 AND expires_at > clock_timestamp()')}
    )
    UPDATE ${TABLE} SET expires_at = GREATEST(expires_at, ${LATER})
    WHERE ${KEY} AND holder = $3 AND (SELECT count(*) FROM mine) = cardinality($2::text[])
    RETURNING resource`,
  release: `
    WITH mine AS MATERIALIZED (${locked('NO KEY UPDATE', 'AND holder = $3')}),
    freed AS (
      UPDATE ${TABLE} SET holder = NULL, expires_at = 'epoch'
      WHERE ${KEY} AND holder = $3 AND EXISTS (SELECT FROM mine)
      RETURNING resource, awaited_until
    )
    SELECT pg_notify('${CHANNEL}', json_build_array($1::text, resource)::text)
    FROM freed WHERE awaited_until > clock_timestamp()`,
  /** A row remembers one refused token. The grant of an earlier one ends with its lease. */
  abandon: `
    INSERT INTO ${TABLE} AS lease (namespace, resource, refused)
    SELECT $1, name, $3 FROM unnest($2::text[]) AS name ORDER BY name
    ON CONFLICT (namespace, resource) DO UPDATE SET
      refused = $3,
      holder = NULLIF(lease.holder, $3),
      expires_at = CASE WHEN lease.holder = $3 THEN 'epoch' ELSE lease.expires_at END`,
  /** A release announces itself until then. $3 milliseconds. */
  await: `
    UPDATE ${TABLE} SET awaited_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
    WHERE ${KEY}`,
  inspect: `
    SELECT resource, holder, fencing_token,
      GREATEST(0, extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left_ms
    FROM ${TABLE} WHERE namespace = $1 AND resource = $2`,
  /** $2 is how many at most. */
  leases: `
    SELECT resource, holder, fencing_token,
      (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left_ms
    FROM ${TABLE} WHERE namespace = $1 AND expires_at > clock_timestamp()
    ORDER BY resource LIMIT $2`,
  /** Rows that were not leased for a day. The floor keeps the largest token of them. */
  prune: `
    WITH deleted AS (
      DELETE FROM ${TABLE} WHERE ctid IN (
        SELECT ctid FROM ${TABLE}
        WHERE namespace = $1 AND resource <> '' AND fencing_token < ${NOW_TOKEN} - ${DAY_MICROSECONDS}
          AND expires_at < clock_timestamp() - interval '24 hours'
        LIMIT 10000 FOR UPDATE SKIP LOCKED
      ) RETURNING fencing_token
    )
    INSERT INTO ${TABLE} AS floor (namespace, resource, fencing_token)
    SELECT $1, '', max(fencing_token) FROM deleted HAVING count(*) > 0
    ON CONFLICT (namespace, resource) DO UPDATE
    SET fencing_token = GREATEST(floor.fencing_token, excluded.fencing_token)`,
  /**
   * In a transaction of the holder: others acquire after its end. $3 the lease's fencing token.
   * A holder or a transaction that followed has raised it.
   */
  // rule: followed-lease-begins-no-transaction
  hold: locked('KEY SHARE', 'AND fencing_token = $3 AND holder IS NOT NULL'),
  /** In a transaction that needs no lease: the rows are the lock, none of them is missing. */
  // rule: transaction-locks-all-rows
  lock: `${NAMED} (namespace, resource) DO UPDATE SET resource = excluded.resource`,
  /** Behind `lock`. It ends an earlier lease for good. */
  claim: `
    WITH free AS (
      SELECT ${NEXT_TOKEN} AS next_token FROM ${TABLE} WHERE ${KEY}
      HAVING bool_and(expires_at <= clock_timestamp())
    )
    UPDATE ${TABLE} SET fencing_token = next_token, holder = NULL, expires_at = 'epoch'
    FROM free WHERE ${KEY} RETURNING fencing_token`,
}

/** @param table quoted, as in `"public"."redlock_leases"`. */
export function statementsFor(table: string): Statements {
  const named = Object.entries(STATEMENTS).map(([name, text]) => [
    name,
    text.replaceAll(TABLE, () => table),
  ])
  return Object.fromEntries(named) as Statements
}
