/** Leases as rows of a table. No connection is held between two statements. */
import pRetry from 'p-retry'
import type { Inspection } from '../../lock/inspection.ts'
import type { Claim, ClaimOutcome, LockDriver, Renewal, Wish } from '../lock-driver.ts'
import type { LockSettings } from '../service-settings.ts'
import { describeToken } from '../../names.ts'
import {
  healthOf,
  inspectionOf,
  findingsOf,
  type ListedLease,
  type ServerAnswers,
  type ServiceHealth,
  type Finding,
} from '../service-health.ts'
import { ask, ReleaseListener, type PgListener, type PgPool, type PgRows } from './pg.ts'
import { statementsFor, type Statements } from './statements.ts'

export interface PostgresClaim extends Claim {
  readonly wish: Wish
}

interface Found {
  readonly resource: string
  readonly holder: string | null
  readonly granted: string | null
  readonly left_ms: number
}

export type Listed = Omit<Found, 'granted'> & { readonly fencing_token: string }

interface Server {
  readonly exists: boolean
  readonly standby: boolean
  readonly commit: string
  readonly version: string
}

const NO_TABLE = '42P01'
/** Transactions that PostgreSQL asked to repeat: serialization failures and deadlocks. */
const REPEATED = new Set(['40001', '40P01'])
const REPEATS = { retries: 5, minTimeout: 5, maxTimeout: 100, randomize: true }
const AWAITED_MS = 5_000
const PRUNE_EVERY_MS = 3_600_000

export class PostgresDriver implements LockDriver<PostgresClaim> {
  readonly name = 'PostgreSQL'
  readonly #pool: PgPool
  readonly #settings: LockSettings
  readonly #table: string
  readonly #statements: Statements
  readonly #listener: ReleaseListener | undefined
  readonly listen?: NonNullable<LockDriver['listen']>
  #prunedAt = -Infinity

  constructor(
    pool: PgPool,
    settings: LockSettings,
    table: string,
    listen: (() => PgListener) | undefined,
  ) {
    this.#pool = pool
    this.#settings = settings
    this.#table = table
    this.#statements = statementsFor(table)
    if (listen === undefined) return
    const listener = new ReleaseListener(listen, settings.clock)
    this.#listener = listener
    this.listen = (resources, _, wake) => listener.listen(settings.namespace, resources, wake)
  }

  /** Creates the table where it is missing. */
  async ready(): Promise<void> {
    const server = await this.#server()
    const [problem] = problemsOf(server)
    if (problem !== undefined) throw new Error(`${problem.fact}. ${problem.fix}.`)
    if (server.exists) return
    await this.#query(this.#statements.create).catch(async (error: unknown) => {
      const { rows: again } = await this.#query('SELECT to_regclass($1) AS found', [this.#table])
      // Another client may have created it meanwhile.
      if ((again[0] as { found: unknown } | undefined)?.found == null) throw error
    })
  }

  async acquire(wish: Wish): Promise<ClaimOutcome<PostgresClaim>> {
    this.#prune()
    const { leaseMs, token } = wish
    const grant = (): Promise<PgRows> => this.#on(this.#statements.acquire, wish, [token, leaseMs])
    let outcome = this.#outcome(await grant(), wish)
    if (outcome === 'missing') {
      await this.#on(this.#statements.insert, wish)
      outcome = this.#outcome(await grant(), wish)
    }
    const isTaken = outcome !== 'missing' && outcome.status === 'taken'
    if (this.listen !== undefined && wish.waiter !== undefined && isTaken) {
      // From here on a release announces itself; it may have come before.
      await this.#on(this.#statements.await, wish, [AWAITED_MS])
      outcome = this.#outcome(await grant(), wish)
    }
    return outcome === 'missing' ? { status: 'split', resource: wish.resources[0] ?? '' } : outcome
  }

  async extend({ wish }: PostgresClaim): Promise<Renewal> {
    const { rows } = await this.#on(this.#statements.extend, wish, [wish.token, wish.leaseMs])
    return rows.length === wish.resources.length ? {} : 'gone'
  }

  async release({ wish }: PostgresClaim): Promise<void> {
    await this.#on(this.#statements.release, wish, [wish.token])
  }

  async abandon(wish: Wish): Promise<void> {
    await this.#on(this.#statements.abandon, wish, [wish.token])
  }

  async inspect(resource: string): Promise<Inspection> {
    const { rows } = await this.#read(this.#statements.inspect, resource)
    const [row] = rows as readonly Listed[]
    if (row === undefined || row.left_ms <= 0) {
      const counter = Number(row?.fencing_token ?? 0)
      return { resource, masters: [{ master: this.name, counter }] }
    }
    return inspectionOf(this.name, resource, listed(row))
  }

  async leases(limit: number): Promise<readonly ListedLease[]> {
    const { rows } = await this.#read(this.#statements.leases, limit)
    return (rows as readonly Listed[]).map(listed)
  }

  health(): Promise<ServiceHealth> {
    const ask = async (): Promise<ServerAnswers> => {
      const server = await this.#server()
      const role = server.standby ? 'standby' : 'primary'
      return { version: server.version, role, findings: checked(server) }
    }
    return healthOf(this.name, new Map([[this.name, ask]]), async () => {
      const [problem] = problemsOf(await this.#server())
      if (problem !== undefined) throw new Error(problem.fact)
    })
  }

  async close(): Promise<void> {
    await this.#listener?.close()
  }

  async #server(): Promise<Server> {
    const { rows } = await this.#query(
      `SELECT to_regclass($1) IS NOT NULL AS exists, pg_is_in_recovery() AS standby,
        current_setting('synchronous_commit') AS commit, current_setting('server_version') AS version`,
      [this.#table],
    )
    return rows[0] as Server
  }

  /** Reads of the table, which the first `ready()` creates. */
  async #read(text: string, value: unknown): Promise<PgRows> {
    try {
      return await this.#query(text, [this.#settings.namespace, value])
    } catch (error) {
      if ((error as { code?: string }).code === NO_TABLE) return { rows: [] }
      throw error
    }
  }

  #outcome({ rows }: PgRows, wish: Wish): ClaimOutcome<PostgresClaim> | 'missing' {
    const found = rows as readonly Found[]
    const granted = found[0]?.granted
    if (granted != null) {
      return {
        status: 'granted',
        claim: { fencingToken: Number(granted), leaseMs: wish.leaseMs, wish },
      }
    }
    if (found.length < wish.resources.length) return 'missing'
    const held = found.find(({ left_ms }) => left_ms > 0)
    const { resource = '', holder = null, left_ms = 0 } = held ?? found[0] ?? {}
    if (held === undefined) return { status: 'split', resource }
    return { status: 'taken', resource, holder: holderOf(holder), retryAfterMs: Math.ceil(left_ms) }
  }

  #on(text: string, wish: Wish, more: readonly unknown[] = []): Promise<PgRows> {
    return this.#query(text, [this.#settings.namespace, wish.resources, ...more])
  }

  async #query(text: string, values: readonly unknown[] = []): Promise<PgRows> {
    return pRetry(() => ask(this.#pool, { text, values: [...values] }, this.#settings), {
      ...REPEATS,
      shouldRetry: ({ error }) => REPEATED.has((error as { code?: string }).code ?? ''),
    })
  }

  /** Forgets resources that were not leased for a day. */
  #prune(): void {
    const now = this.#settings.clock.now()
    if (now - this.#prunedAt < PRUNE_EVERY_MS) return
    this.#prunedAt = now
    this.#query(this.#statements.prune, [this.#settings.namespace]).catch(() => undefined)
  }
}

/** That no lease is safe with. */
function problemsOf(server: Server): readonly Finding[] {
  return checked(server).filter(({ severity }) => severity === 'error')
}

function checked({ exists, standby, commit }: Server): readonly Finding[] {
  return findingsOf('PostgreSQL', (report) => {
    if (standby) {
      report('error', 'standby', 'This PostgreSQL server is a standby', 'Connect to the primary')
    }
    if (commit === 'off') {
      const fact = '`synchronous_commit` is off, so a crash forgets leases'
      report('error', 'forgets', fact, 'Set it to on for this role')
    }
    if (!exists) {
      const fix = 'nothing to do: the first worker creates it'
      report('note', 'no-table', 'the table of leases does not exist', fix)
    }
  })
}

export function listed({ resource, holder, fencing_token, left_ms }: Listed): ListedLease {
  const fencingToken = Number(fencing_token)
  return { resource, holder: holderOf(holder), fencingToken, freeInMs: Math.ceil(left_ms) }
}

function holderOf(token: string | null): string {
  return token === null ? 'unknown' : describeToken(token)
}
