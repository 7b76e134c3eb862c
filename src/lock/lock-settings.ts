/** The options that every lock service has, checked, with their defaults. */
import { hostname } from 'node:os'
import { systemClock, type Clock } from '../clock.ts'
import { defaultLogger, type Logger } from '../logger.ts'
import { integerOption, knownOptions, nameOption, numberOption, objectOption } from '../options.ts'
import { Log } from '../log.ts'
import { leaseTerms, MIN_LEASE_MS } from './lease-options.ts'

/** Of every lock service. All durations are milliseconds. */
export interface CommonOptions {
  /**
   * Length of a lease when a call does not say. Longer survives longer pauses; shorter frees a
   * dead holder's resource sooner.
   * @defaultValue 10 000
   */
  readonly leaseMs?: number
  /** The longest lease that a call may ask for. @defaultValue 30 000 */
  readonly maxLeaseMs?: number
  /** Resources of different namespaces have nothing in common. @defaultValue 'redlock' */
  readonly namespace?: string
  /** How different the rates of two clocks may be, as a fraction. @defaultValue 0.01 */
  readonly driftFactor?: number
  /** The longest time one lease may be held, extensions included. @defaultValue 1 h */
  readonly maxHoldMs?: number
  /** How often one lease may be extended. @defaultValue 10 000 */
  readonly maxExtensions?: number
  /** Who holds a lease, as operators and errors see it. @defaultValue `hostname:pid` */
  readonly owner?: string
  /** Pino, or what has its four methods. @defaultValue warnings and errors as JSON on stderr */
  readonly logger?: Logger
  /** @internal */
  readonly clock?: Clock
}

/** What every lock service has, checked, with every default in place. */
export interface CommonSettings extends Required<Omit<CommonOptions, 'logger'>> {
  readonly log: Log
}

/** Names of options; those that are `false` are internal. */
export type OwnOptions = Readonly<Record<string, boolean>>

const COMMON_OPTIONS: Readonly<Record<keyof CommonOptions, boolean>> = {
  ...{ leaseMs: true, maxLeaseMs: true, namespace: true, driftFactor: true },
  ...{ maxHoldMs: true, maxExtensions: true, owner: true, logger: true, clock: false },
}
const MAX_LEASE_MS = 24 * 3_600_000
const HELD = { maxHoldMs: 3_600_000, maxExtensions: 10_000 }

/**
 * @param own the names of the service's own options.
 * @throws TypeError for a bad option.
 */
export function commonSettings(options: CommonOptions, own: OwnOptions): CommonSettings {
  const given: unknown = options
  objectOption(given, `an object with \`${Object.keys(own)[0] ?? 'leaseMs'}\``)
  knownOptions(given, { ...own, ...COMMON_OPTIONS })
  const maxLeaseMs = options.maxLeaseMs ?? 30_000
  integerOption('maxLeaseMs', maxLeaseMs, MIN_LEASE_MS, MAX_LEASE_MS)
  const byDefault = { leaseMs: Math.min(10_000, maxLeaseMs), maxLeaseMs, ...HELD }
  const { leaseMs, maxHoldMs, maxExtensions } = leaseTerms(options, byDefault)
  return {
    ...{ leaseMs, maxLeaseMs, maxHoldMs, maxExtensions },
    namespace: nameOption('namespace', options.namespace ?? 'redlock'),
    driftFactor: numberOption('driftFactor', options.driftFactor ?? 0.01, 0, 0.5),
    owner: nameOption('owner', options.owner ?? `${hostname()}:${process.pid}`),
    log: new Log(options.logger ?? defaultLogger()),
    clock: options.clock ?? systemClock,
  }
}
