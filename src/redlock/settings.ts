import { DAY_MS } from '../clock.ts'
import { integerOption, knownOptions, objectOption, refuse } from '../options.ts'
import {
  isRedisUrl,
  masterName,
  REDIS_URL,
  type MasterAddress,
} from './wire/connection-settings.ts'
import { namesLockKeys } from '../names.ts'
import { commonSettings, type CommonOptions, type CommonSettings } from '../lock/lock-settings.ts'
import { MasterConnection } from './wire/master-connection.ts'
import type { Connect } from './wire/master.ts'

/** How to build a {@link Redlock}. All durations are milliseconds. */
export interface RedlockOptions extends CommonOptions {
  /**
   * The lock servers: `redis://` or `rediss://` URLs, or ioredis options (user, password, TLS).
   * Independent Redis >= 7.0 or Valkey masters, not replicas of each other, `noeviction`, and not
   * the queue's Redis. The same in every client: another number of them is refused. Use
   * five, as the Redlock text does: two may fail. Of three, one may fail; of one, none.
   */
  readonly masters: readonly MasterAddress[]
  /**
   * The longest lease anyone in this fleet may take. One constant for the whole fleet, stored on
   * the masters: a client with another value is refused. A master that lost its memory votes again
   * after this time.
   * @defaultValue 30 000
   */
  readonly maxLeaseMs?: number
  /**
   * The fleet as it was before `bullmq-redlock resize`: what differs from the other options. The
   * client works with it until the masters have been resized, and then follows. Leave it out when
   * every client has followed. Such a client founds no fleet.
   */
  readonly previous?: PreviousFleet
  /**
   * How long one master may take to answer before it counts as not voting. Never waited for when
   * the other masters have decided.
   * @defaultValue 5 % of `leaseMs`, within 50 to 500
   */
  readonly masterTimeoutMs?: number
  /** How long a TCP connect may take. @defaultValue 2 000 */
  readonly connectTimeoutMs?: number
  /**
   * How far a client's clock may be ahead of a master's before the master refuses its fencing
   * tokens. Also how far a master's clock may be from those of a quorum before it does not count.
   * Less than half of `maxLeaseMs`.
   * @defaultValue a third of `maxLeaseMs`
   */
  readonly maxClockSkewMs?: number
  /**
   * How long a master remembers a resource's fencing counter after its last use. One constant for
   * the whole fleet: a client with another value is refused.
   * @defaultValue 24 h
   */
  readonly fenceTtlMs?: number
  /** @internal */
  readonly connect?: Connect
}

/** What `bullmq-redlock resize` changes. */
export type PreviousFleet = Partial<Pick<RedlockOptions, 'masters' | 'maxLeaseMs' | 'fenceTtlMs'>>

type Durations = Required<
  Pick<RedlockOptions, 'masterTimeoutMs' | 'connectTimeoutMs' | 'maxClockSkewMs' | 'fenceTtlMs'>
>

/** Checked options with every default in place. */
export interface Settings extends CommonSettings, Durations {
  readonly addresses: readonly MasterAddress[]
  readonly connect: Connect
  /** Until the fleet has been resized. */
  readonly previous: Settings | undefined
}

const OWN_OPTIONS: Readonly<Record<Exclude<keyof RedlockOptions, keyof CommonOptions>, boolean>> = {
  ...{ masters: true, previous: true, masterTimeoutMs: true, connectTimeoutMs: true },
  ...{ maxClockSkewMs: true, fenceTtlMs: true, connect: false },
}

/** A counter lives for as many of the longest leases at least. */
export const FENCE_LEASES = 10

export function resolveSettings(options: RedlockOptions): Settings {
  const common = commonSettings(options, OWN_OPTIONS)
  const { leaseMs, maxLeaseMs } = common
  const integer = (name: keyof Durations, byDefault: number, min: number, max: number): number =>
    integerOption(name, options[name] ?? byDefault, min, max)
  const timeoutMs = Math.round(Math.min(500, Math.max(50, leaseMs * 0.05)))
  const skewMs = [Math.floor(maxLeaseMs / 3), 1, Math.floor(maxLeaseMs / 2)] as const
  const fenceMs = [defaultFenceTtlMs(maxLeaseMs), FENCE_LEASES * maxLeaseMs] as const
  return {
    ...common,
    addresses: mastersOption(options.masters),
    namespace: checkedNamespace(common.namespace),
    masterTimeoutMs: integer('masterTimeoutMs', timeoutMs, 1, leaseMs),
    connectTimeoutMs: integer('connectTimeoutMs', 2_000, 1, 60_000),
    maxClockSkewMs: integer('maxClockSkewMs', ...skewMs),
    fenceTtlMs: integer('fenceTtlMs', ...fenceMs, Number.MAX_SAFE_INTEGER),
    connect: options.connect ?? ((connection) => new MasterConnection(connection)),
    previous: previousSettings(options),
  }
}

/** `fenceTtlMs` of a fleet that was given none. */
export function defaultFenceTtlMs(maxLeaseMs: number): number {
  return Math.max(DAY_MS, FENCE_LEASES * maxLeaseMs)
}

function previousSettings({ previous, ...options }: RedlockOptions): Settings | undefined {
  if (previous === undefined) return undefined
  const given: unknown = previous
  objectOption(given, 'an object with what `resize` changes, such as `masters`', 'previous')
  knownOptions(given, { masters: true, maxLeaseMs: true, fenceTtlMs: true })
  return resolveSettings({ ...options, ...previous })
}

/** @throws TypeError for a name whose keys could be those of another namespace. */
function checkedNamespace(namespace: string): string {
  if (!namesLockKeys(namespace)) return namespace
  return refuse('namespace', 'a name without a part such as `:lease`, which names keys', namespace)
}

/** @throws TypeError */
export function mastersOption(masters: unknown): readonly MasterAddress[] {
  if (!Array.isArray(masters) || masters.length === 0) {
    return refuse('masters', 'a list of redis:// URLs or ioredis options, five of them', masters)
  }
  const addresses = masters.map((address: unknown, index) => addressOption(address, index))
  const seen = new Set<string>()
  for (const address of addresses) {
    const key = typeof address === 'string' ? address.replace(/\/+$/, '') : JSON.stringify(address)
    if (seen.has(key)) {
      const why = 'distinct servers (two addresses of one server would count as two votes)'
      refuse('masters', why, masterName(address))
    }
    seen.add(key)
  }
  return addresses
}

function addressOption(address: unknown, index: number): MasterAddress {
  const name = `masters[${index}]`
  if (isRedisUrl(address)) return address
  if (typeof address !== 'object' || address === null) {
    return refuse(name, `${REDIS_URL}, or an ioredis options object`, address)
  }
  if ('options' in address && 'status' in address) {
    const why =
      'an address, not a connection: Redlock makes its own, because a shared one queues and re-sends commands'
    return refuse(name, why, address)
  }
  if ('sentinels' in address) {
    return refuse(name, 'one server by itself: after a failover its replica lacks leases', address)
  }
  const { host, path } = address as Partial<Record<'host' | 'path', unknown>>
  for (const [field, value] of Object.entries({ host, path })) {
    const isName = typeof value === 'string' && !/@|:\/\//.test(value)
    if (value !== undefined && !isName) refuse(`${name}.${field}`, 'a name, not a URL', value)
  }
  return address
}
