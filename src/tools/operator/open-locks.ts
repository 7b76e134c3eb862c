/**
 * The lock service that an address names, for programs that take one from a flag or a variable:
 * `postgres://user@host/db` · `etcd:https://a:2379,b:2379` · `zookeeper:a:2181,b:2181/root`.
 * The client of the service is loaded only here, because it is an optional peer.
 */
import { once, type EventEmitter } from 'node:events'
import { EtcdLocks } from '../../services/etcd/etcd-locks.ts'
import type { LockClient } from '../../services/lock-client.ts'
import type { LockOptions } from '../../services/service-settings.ts'
import { whenEnded } from '../../services/postgres/pg.ts'
import { PostgresLocks } from '../../services/postgres/postgres-locks.ts'

export const LOCKS_ADDRESS =
  '`postgres://user@host/db`, `etcd:https://host:2379,host:2379` or `zookeeper:host:2181,host:2181`'

const ADDRESS = /^(?:(postgres(?:ql)?):\/\/|(etcd):(?=https?:\/\/)|(zookeeper):(?:\/\/)?)(.+)$/

/** What {@link openLocks} takes; no server is asked. */
export function isLocksAddress(address: string): boolean {
  return ADDRESS.test(address)
}

/**
 * Not connected yet: call `ready()`. `tickMs` is that of ZooKeeper's servers.
 * @throws TypeError for an address of another form; NotInstalledError where the client package is
 * not installed.
 */
export async function openLocks(
  address: string,
  { tickMs, ...shared }: LockOptions & { readonly tickMs?: number } = {},
): Promise<LockClient> {
  const [, postgres, etcd, , rest = ''] = ADDRESS.exec(address) ?? []
  if (rest === '') throw new TypeError(`Expected the address of the locks to be ${LOCKS_ADDRESS}`)
  if (postgres !== undefined) return openPostgres(address, shared)
  if (etcd !== undefined) return new EtcdLocks({ ...shared, ...etcdOptions(rest) })
  const { ZooKeeperLocks } = await installed(
    'node-zookeeper-client',
    () => import('../../services/zookeeper/zookeeper-locks.ts'),
  )
  return new ZooKeeperLocks({ ...shared, servers: rest, ...(tickMs !== undefined && { tickMs }) })
}

async function openPostgres(url: string, options: LockOptions): Promise<LockClient> {
  const { default: pg } = await installed('pg', () => import('pg'))
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  pool.on('error', () => undefined) // A connection that broke while it was idle is replaced.
  // The pool forgets those that it ends, before they have ended.
  const sessions = new Set<EventEmitter>()
  pool.on('connect', (session) => {
    sessions.add(session)
    session.once('end', () => sessions.delete(session))
  })
  const end = async (): Promise<void> => {
    await pool.end()
    await Promise.all([...sessions].map((session) => once(session, 'end')))
  }
  const locks = new PostgresLocks({ ...options, pool, listen: () => new pg.Client(url) })
  const close = locks.close.bind(locks)
  let closed: Promise<void> | undefined
  locks.close = () => (closed ??= close().then(() => whenEnded(end(), sessions)))
  return locks
}

/** The scheme, user and password of the first endpoint hold for those that have none. */
function etcdOptions(text: string) {
  const [first = '', ...more] = text.split(',')
  const { protocol, username, password } = new URL(first)
  const endpoints = [
    first,
    ...more.map((one) => (one.includes('://') ? one : `${protocol}//${one}`)),
  ]
  return {
    endpoints: endpoints.map((one) => new URL(one).origin),
    ...(username !== '' && {
      username: decodeURIComponent(username),
      password: decodeURIComponent(password),
    }),
  }
}

/** A package that is needed here is not installed. The message says what to run. */
export class NotInstalledError extends Error {
  override readonly name = 'NotInstalledError'

  /** @param packages as `npm install` takes them. */
  constructor(packages: string, options?: ErrorOptions) {
    super(`Not installed: ${packages}. Run: \`npm install ${packages}\``, options)
  }
}

/** As Node says it of `import` and of `require`. */
const MISSING: ReadonlySet<unknown> = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'])

/** @throws NotInstalledError where what `load` imports is not there. */
export async function installed<Module>(
  packages: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load()
  } catch (cause) {
    if (!MISSING.has((cause as { code?: unknown }).code)) throw cause
    throw new NotInstalledError(packages, { cause })
  }
}
