/** The dashboard's options, checked, with every default in place. */
import { DAY_MS } from '../../clock.ts'
import { prefixOption, type GivenOption } from '../../shown-commands.ts'
import { integerOption, knownOptions, nameOption, objectOption, refuse } from '../../options.ts'
import { defaultLogger, type Logger } from '../../logger.ts'
import type { InspectedLocks } from '../operator/lock-view.ts'
import {
  isRedisUrl,
  REDIS_URL,
  type MasterAddress,
} from '../../redlock/wire/connection-settings.ts'
import { mastersOption } from '../../redlock/settings.ts'
import type { AccessOptions } from './access.ts'

/** Which servers the dashboard reads, and how often. */
export interface DashboardOptions extends AccessOptions {
  /** As your workers have them; or `locks`. */
  readonly masters?: readonly MasterAddress[]
  /** A lock service besides Redis: `new PostgresLocks(…)`. It is not closed with the dashboard. */
  readonly locks?: InspectedLocks
  /** BullMQ's Redis: a `redis://` URL, or ioredis options. Without it no lines are shown. */
  readonly queueRedis?: MasterAddress
  /** Of your workers' Redlock. @defaultValue 'redlock' */
  readonly namespace?: string
  /** BullMQ's. @defaultValue 'bull' */
  readonly prefix?: string
  /** The fleet's. @defaultValue what most masters have stored */
  readonly maxLeaseMs?: number
  /** How long one server may take to answer. @defaultValue 1 000 */
  readonly timeoutMs?: number
  /** How often the servers are looked at while there is a viewer. @defaultValue 1 000 */
  readonly everyMs?: number
  /**
   * The most leases that are looked at. Where there are more the page says so, and a search finds
   * them. @defaultValue 1 000
   */
  readonly limit?: number
  /** Where Bull Board is mounted, such as `/admin/queues`: jobs then link to it. */
  readonly bullBoard?: string
  /**
   * Where it is mounted, for frameworks that leave the path as it is: `/redlock`. @defaultValue ''
   */
  readonly basePath?: string
  /**
   * Told of every action of an operator, at `warn`: `operator:acted`, with who, from which address,
   * what, and what came of it. @defaultValue standard error, as JSON
   */
  readonly logger?: Logger
}

const KNOWN = {
  ...{ masters: true, locks: true, queueRedis: true, namespace: true, prefix: true },
  ...{ maxLeaseMs: true, timeoutMs: true, everyMs: true, limit: true, bullBoard: true },
  ...{ basePath: true, token: true, authorize: true, allowedHosts: true },
  ...{ operatorToken: true, operator: true, logger: true },
} satisfies Record<keyof DashboardOptions, true>

type Defaulted =
  'masters' | 'namespace' | 'prefix' | 'timeoutMs' | 'everyMs' | 'limit' | 'basePath' | 'logger'
export type ResolvedOptions = DashboardOptions &
  Required<Pick<DashboardOptions, Defaulted>> & {
    /** With which commands are shown, where they are not the defaults. */
    readonly shown: readonly GivenOption[]
  }

/** @throws TypeError for a bad option. */
export function resolveOptions(options: DashboardOptions): ResolvedOptions {
  const given: unknown = options
  objectOption(given, 'an object with `masters`')
  knownOptions({ ...options }, KNOWN)
  const { masters = [], locks, queueRedis, maxLeaseMs, basePath = '', bullBoard } = options
  if (locks !== undefined && masters.length > 0) refuse('locks', 'absent beside `masters`', locks)
  if (locks === undefined) mastersOption(masters)
  if (queueRedis !== undefined && !isQueueAddress(queueRedis)) {
    // A mistyped URL may have a password in it, so it is not repeated.
    throw new TypeError(
      `Expected \`queueRedis\` to be ${REDIS_URL}, or ioredis options. The value is not shown.`,
    )
  }
  if (!/^(\/[^/?#]+)*$/.test(basePath)) refuse('basePath', "'' or such as '/redlock'", basePath)
  if (bullBoard !== undefined && !/^(https?:\/\/[^/]+)?(\/[^/?#]+)*$/.test(bullBoard)) {
    refuse(
      'bullBoard',
      "a path or a URL without a slash at its end, such as '/admin/queues'",
      bullBoard,
    )
  }
  if (maxLeaseMs !== undefined) integerOption('maxLeaseMs', maxLeaseMs, 100, DAY_MS)
  const namespace = nameOption('namespace', options.namespace ?? locks?.namespace ?? 'redlock')
  const prefix = nameOption('prefix', options.prefix ?? 'bull')
  const shown: GivenOption[] = [...prefixOption(prefix)]
  if (namespace !== 'redlock') shown.push({ flag: '--namespace', value: namespace })
  return {
    ...options,
    ...{ masters, basePath, namespace, prefix, shown },
    logger: options.logger ?? defaultLogger(),
    timeoutMs: integerOption('timeoutMs', options.timeoutMs ?? 1_000, 10, 60_000),
    everyMs: integerOption('everyMs', options.everyMs ?? 1_000, 100, 3_600_000),
    limit: integerOption('limit', options.limit ?? 1_000, 1, 10_000),
  }
}

export function isQueueAddress(value: unknown): value is MasterAddress {
  if (typeof value !== 'object' || value === null) return isRedisUrl(value)
  return 'host' in value || 'path' in value || ('sentinels' in value && 'name' in value)
}
