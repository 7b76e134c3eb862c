import '../../telemetry/join.ts'
/** `bullmq-redlock/postgres`: leases in a table of PostgreSQL. */
export {
  type HeldResources,
  type LockedTransaction,
  PostgresLocks,
  type PostgresLocksOptions,
} from './postgres-locks.ts'
export type { PgListener, PgPool, PgPoolClient, PgQueryable } from './pg.ts'
