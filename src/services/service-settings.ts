/** Options of the lock services over one server. */
import {
  commonSettings,
  type CommonOptions,
  type CommonSettings,
  type OwnOptions,
} from '../lock/lock-settings.ts'
import { integerOption } from '../options.ts'

/** Of a lock service over one server. */
export interface LockOptions extends CommonOptions {
  /**
   * How long one request may take before its outcome counts as unknown.
   * @defaultValue a quarter of `leaseMs`, within 100 to 2 000
   */
  readonly requestTimeoutMs?: number
}

export interface LockSettings extends CommonSettings {
  readonly requestTimeoutMs: number
}

/**
 * @param own the names of the service's own options.
 * @throws TypeError for a bad option.
 */
export function lockSettings(given: LockOptions, own: OwnOptions): LockSettings {
  const common = commonSettings(given, { ...own, requestTimeoutMs: true })
  const { leaseMs } = common
  const requestTimeoutMs =
    given.requestTimeoutMs ?? Math.round(Math.min(2_000, Math.max(100, leaseMs / 4)))
  return {
    ...common,
    requestTimeoutMs: integerOption('requestTimeoutMs', requestTimeoutMs, 1, leaseMs),
  }
}
