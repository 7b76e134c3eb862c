/**
 * Leases in ZooKeeper, for projects that run it.
 *
 * All leases of one process last as long as its session: `leaseMs` asks for the session's timeout,
 * the servers answer with theirs (at least two of their ticks, 4 s by default), and `lease.leaseMs`
 * says which. A part of it is not trusted: followers report to the leader late.
 */
import { LockClient } from '../lock-client.ts'
import { lockSettings, type LockOptions } from '../service-settings.ts'
import { integerOption, refuse, refuseSecret } from '../../options.ts'
import { ZooKeeperDriver } from './zookeeper-driver.ts'

/** Which servers, and the options of every lock service. */
export interface ZooKeeperLocksOptions extends LockOptions {
  /** `host:2181,host:2181`, and a path as root where there is one: `host:2181/app`. */
  readonly servers: string
  /** The servers' `tickTime`. A larger one than theirs is safe. @defaultValue 2 000 */
  readonly tickMs?: number
  /** For servers that ask for it: `{ scheme: 'digest', auth: 'user:password' }`. */
  readonly auth?: { readonly scheme: string; readonly auth: string }
}

const HOST = String.raw`[\w.-]+(:\d{1,5})?`
/** What the client library takes. It ends the process for a port that is none. */
const SERVERS = new RegExp(String.raw`^${HOST}(,${HOST})*(\/|(\/(?!\.{1,2}(\/|$))[^/\s]+)+)?$`)

/**
 * Leases on ephemeral nodes of ZooKeeper.
 * @example
 * ```ts
 * const locks = new ZooKeeperLocks({ servers: '10.0.0.1:2181,10.0.0.2:2181' })
 * new LockedWorker('invoices', processor, { connection, redlock: locks, resource })
 * ```
 */
export class ZooKeeperLocks extends LockClient {
  /** @throws TypeError for a bad option, naming it. */
  constructor(options: ZooKeeperLocksOptions) {
    const settings = lockSettings(options, { servers: true, auth: true, tickMs: true })
    const { servers, auth, tickMs = 2_000 } = options
    const isPort = (port: string): boolean => Number(port.slice(1)) < 2 ** 16
    if (
      typeof servers !== 'string' ||
      !SERVERS.test(servers) ||
      !(servers.match(/:\d+/g) ?? []).every(isPort)
    ) {
      refuse('servers', 'a string such as `host:2181,host:2181` or `host:2181/path`', servers)
    }
    const given = auth as Partial<Record<'scheme' | 'auth', unknown>> | null | undefined
    if (
      auth !== undefined &&
      !(typeof given?.scheme === 'string' && typeof given.auth === 'string')
    ) {
      refuseSecret('auth', "an object such as { scheme: 'digest', auth: 'user:password' }")
    }
    const { clock, leaseMs, namespace } = settings
    integerOption('tickMs', tickMs, 1, 60_000)
    const session = { servers, timeoutMs: leaseMs, tickMs, auth, clock }
    super(settings, new ZooKeeperDriver(session, namespace))
  }
}
