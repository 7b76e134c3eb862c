/**
 * The statements on the table of leases: a row for every resource that was ever leased, each
 * statement one transaction. All times are those of the server's `clock_timestamp()`.
 *
 * A fencing token is the larger of the row's last one plus 1 and the server's clock in
 * microseconds. So tokens also increase where a promoted standby or a restored backup lacks the
 * last rows.
 *
 * Locks on rows: a transaction of the holder takes KEY SHARE, a renewal NO KEY UPDATE, an acquire
 * UPDATE. So renewals go on during a transaction of the holder, and no one acquires before its end.
 */

type Name =
  | ('create' | 'insert' | 'acquire' | 'extend' | 'release' | 'abandon' | 'await')
  | ('inspect' | 'leases' | 'prune' | 'hold' | 'claim')

export type Statements = Readonly<Record<Name, string>>

export const CHANNEL = 'bullmq_redlock_released'

const KEY = 'namespace = $1 AND resource = ANY($2::text[])'
const LATER = "clock_timestamp() + $4::float8 * interval '1 millisecond'"
const NEXT_TOKEN =
  'GREATEST(max(fencing_token) + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)'

/** @param table quoted, as in `"public"."redlock_leases"`. */
export function statementsFor(table: string): Statements {
  const locked = (lock: string, where = ''): string =>
    `SELECT * FROM ${table} WHERE ${KEY} ${where} ORDER BY resource FOR ${lock}`
  return {
    create: `
      CREATE TABLE ${table} (
        namespace text NOT NULL,
        resource text NOT NULL,
        holder text,
        fencing_token bigint NOT NULL DEFAULT 0,
        expires_at timestamptz NOT NULL DEFAULT 'epoch',
        awaited_until timestamptz NOT NULL DEFAULT 'epoch',
        refused text,
        PRIMARY KEY (namespace, resource)
      )`,
    insert: `
      INSERT INTO ${table} (namespace, resource)
      SELECT $1, name FROM unnest($2::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING`,
    /**
     * $1 namespace, $2 resources, $3 token, $4 ms. Returns every resource, and the token granted.
     */
    acquire: `
      WITH found AS MATERIALIZED (${locked('UPDATE SKIP LOCKED')}),
      free AS (
        SELECT ${NEXT_TOKEN} AS next_token FROM found
        HAVING count(*) = cardinality($2::text[])
          AND bool_and(expires_at <= clock_timestamp() AND refused IS DISTINCT FROM $3)
      ),
      claimed AS (
        UPDATE ${table} SET holder = $3, fencing_token = next_token, expires_at = ${LATER}
        FROM free WHERE ${KEY} RETURNING fencing_token
      )
      SELECT resource, holder, (SELECT max(fencing_token) FROM claimed) AS granted,
        GREATEST(0, extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left_ms
      FROM ${table} WHERE ${KEY} ORDER BY resource`,
    extend: `
      WITH mine AS MATERIALIZED (
        ${locked('NO KEY UPDATE', 'AND holder = $3 AND expires_at > clock_timestamp()')}
      )
      UPDATE ${table} SET expires_at = GREATEST(expires_at, ${LATER})
      WHERE ${KEY} AND holder = $3 AND (SELECT count(*) FROM mine) = cardinality($2::text[])
      RETURNING resource`,
    release: `
      WITH mine AS MATERIALIZED (${locked('NO KEY UPDATE', 'AND holder = $3')}),
      freed AS (
        UPDATE ${table} SET holder = NULL, expires_at = 'epoch'
        WHERE ${KEY} AND holder = $3 AND EXISTS (SELECT FROM mine)
        RETURNING resource, awaited_until
      )
      SELECT pg_notify('${CHANNEL}', json_build_array($1::text, resource)::text)
      FROM freed WHERE awaited_until > clock_timestamp()`,
    /** A row remembers one refused token. The grant of an earlier one ends with its lease. */
    abandon: `
      INSERT INTO ${table} AS lease (namespace, resource, refused)
      SELECT $1, name, $3 FROM unnest($2::text[]) AS name ORDER BY name
      ON CONFLICT (namespace, resource) DO UPDATE SET
        refused = $3,
        holder = NULLIF(lease.holder, $3),
        expires_at = CASE WHEN lease.holder = $3 THEN 'epoch' ELSE lease.expires_at END`,
    /** A release announces itself until then. $3 milliseconds. */
    await: `
      UPDATE ${table} SET awaited_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
      WHERE ${KEY}`,
    inspect: `
      SELECT resource, holder, fencing_token,
        GREATEST(0, extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left_ms
      FROM ${table} WHERE namespace = $1 AND resource = $2`,
    /** $2 is how many at most. */
    leases: `
      SELECT resource, holder, fencing_token,
        (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left_ms
      FROM ${table} WHERE namespace = $1 AND expires_at > clock_timestamp()
      ORDER BY resource LIMIT $2`,
    /** The clock in the tokens makes up for a row that is forgotten. */
    prune: `
      DELETE FROM ${table} WHERE ctid IN (
        SELECT ctid FROM ${table}
        WHERE namespace = $1 AND expires_at < clock_timestamp() - interval '24 hours'
        LIMIT 10000 FOR UPDATE SKIP LOCKED
      )`,
    /** In a transaction of the holder: others acquire after its end. */
    hold: locked('KEY SHARE', 'AND holder = $3'),
    /** In a transaction that needs no lease: the row itself is the lock. */
    claim: `
      WITH found AS MATERIALIZED (${locked('UPDATE')}),
      free AS (
        SELECT ${NEXT_TOKEN} AS next_token FROM found
        HAVING bool_and(expires_at <= clock_timestamp())
      )
      UPDATE ${table} SET fencing_token = next_token FROM free WHERE ${KEY}
      RETURNING fencing_token`,
  }
}
