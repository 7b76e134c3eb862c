/**
 * Leases in etcd, for projects that run it.
 *
 * etcd counts leases in whole seconds and grants at least 2 s by default: `lease.leaseMs` says what
 * was granted. Its lease outlives a change of its leader, and then ends up to one lease later.
 */
import { LockClient } from '../lock-client.ts'
import { lockSettings, type LockOptions } from '../service-settings.ts'
import { refuse, refuseSecret } from '../../options.ts'
import { EtcdDriver } from './etcd-driver.ts'
import { EtcdGateway, type EtcdTls } from './gateway.ts'

/** Which members of etcd, and the options of every lock service. */
export interface EtcdLocksOptions extends LockOptions {
  /** The members: `http://host:2379` or `https://…`. All of them, so that one may be down. */
  readonly endpoints: readonly string[]
  /**
   * For `https` endpoints. The gateway does not take a client certificate for a user. With
   * `--client-cert-auth` the members' own certificates must also be good for clients
   * (`extendedKeyUsage` clientAuth).
   */
  readonly tls?: EtcdTls
  /** A user of etcd, where authentication is on. */
  readonly username?: string
  /** Its password. */
  readonly password?: string
}

/**
 * Leases on keys of etcd.
 * @example
 * ```ts
 * const locks = new EtcdLocks({ endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379'] })
 * new LockedWorker('invoices', processor, { connection, redlock: locks, resource })
 * ```
 */
export class EtcdLocks extends LockClient {
  readonly #gateway: EtcdGateway

  /** @throws TypeError for a bad option, naming it. */
  constructor(options: EtcdLocksOptions) {
    const own = { endpoints: true, tls: true, username: true, password: true }
    const settings = lockSettings(options, own)
    const { endpoints, tls, username, password } = options
    const isUrl = (url: unknown): boolean =>
      typeof url === 'string' && /^https?:\/\/[^@]+$/.test(url) && URL.canParse(url)
    if (!Array.isArray(endpoints) || endpoints.length === 0 || !endpoints.every(isUrl)) {
      const expected = 'a list of http:// or https:// URLs, with the user in `username`'
      refuse('endpoints', expected, endpoints)
    }
    for (const [name, value] of Object.entries({ username, password })) {
      if (value !== undefined && typeof value !== 'string') refuseSecret(name, 'a string')
    }
    if (tls !== undefined && (typeof tls as unknown) !== 'object') {
      refuseSecret('tls', 'an object such as { ca, cert, key }')
    }
    const { clock, requestTimeoutMs: timeoutMs, namespace } = settings
    const gateway = new EtcdGateway({ endpoints, tls, username, password, timeoutMs, clock })
    super(settings, new EtcdDriver(gateway, namespace))
    this.#gateway = gateway
  }

  /** Fencing tokens of different clusters cannot be compared. Undefined before the first answer. */
  get clusterId(): string | undefined {
    return this.#gateway.clusterId
  }
}
