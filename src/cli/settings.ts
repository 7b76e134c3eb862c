/**
 * Where the servers are and how they are named: from flags, else the environment, else a JSON file.
 * Each setting has one row here, and a value that cannot be used is refused under the name by which
 * it was given.
 */
import { readFileSync } from 'node:fs'
import { masterName, type MasterAddress } from '../redis/connection-settings.ts'
import { UsageError } from './exit-code.ts'
import { isLocksAddress, LOCKS_ADDRESS } from '../operator/open-locks.ts'
import { printable, shortened } from './printable.ts'
import { redacted } from '../redact.ts'

export interface Settings {
  readonly masters: readonly MasterAddress[]
  /** The address of another lock service; then there are no masters. */
  readonly locks: string | undefined
  readonly queueRedis: MasterAddress | undefined
  readonly namespace: string
  readonly prefix: string
  readonly maxLeaseMs: number | undefined
  readonly timeoutMs: number
}

/** The flags as they were parsed: texts, and for `--master` a list of them. */
export interface SettingFlags {
  readonly master?: readonly string[]
  readonly locks?: string
  readonly queueRedis?: string
  readonly namespace?: string
  readonly prefix?: string
  readonly maxLeaseMs?: string
  readonly timeoutMs?: string
  readonly config?: string
}

export type Environment = Readonly<Record<string, string | undefined>>

const ENV_PREFIX = 'BULLMQ_REDLOCK_'
const FILE_KEYS = [
  'masters',
  'locks',
  'queueRedis',
  'namespace',
  'prefix',
  'maxLeaseMs',
  'timeoutMs',
] as const
type Key = (typeof FILE_KEYS)[number]

const FLAG_OF: Readonly<Record<Key, string>> = {
  masters: '--master',
  locks: '--locks',
  queueRedis: '--queue-redis',
  namespace: '--namespace',
  prefix: '--prefix',
  maxLeaseMs: '--max-lease-ms',
  timeoutMs: '--timeout-ms',
}

export const ENVIRONMENT_OF: Readonly<Record<Key | 'config', string>> = {
  masters: `${ENV_PREFIX}MASTERS`,
  locks: `${ENV_PREFIX}LOCKS`,
  queueRedis: `${ENV_PREFIX}QUEUE`,
  namespace: `${ENV_PREFIX}NAMESPACE`,
  prefix: `${ENV_PREFIX}PREFIX`,
  maxLeaseMs: `${ENV_PREFIX}MAX_LEASE_MS`,
  timeoutMs: `${ENV_PREFIX}TIMEOUT_MS`,
  config: `${ENV_PREFIX}CONFIG`,
}

const MAX_MASTERS = 99
const DAY_MS = 86_400_000

/** A value and the name under which it was given. */
interface Given {
  readonly value: unknown
  readonly source: string
}

/** @throws UsageError for the first setting that cannot be used. */
export function readSettings(flags: SettingFlags, env: Environment): Settings {
  const path = flags.config ?? given(env[ENVIRONMENT_OF.config])
  const file = path === undefined ? {} : readFile(path)
  const find = (key: Key, flag: unknown): Given | undefined => {
    if (flag !== undefined) return { value: flag, source: FLAG_OF[key] }
    const name = ENVIRONMENT_OF[key]
    const fromEnv = given(env[name])
    if (fromEnv !== undefined) {
      const value = key === 'masters' ? fromEnv.split(',') : fromEnv
      return { value, source: name }
    }
    const value = file[key]
    return value === undefined
      ? undefined
      : { value, source: `\`${key}\` in ${path ?? 'the file'}` }
  }
  const queueRedis = find('queueRedis', flags.queueRedis)
  const masters = find('masters', flags.master)
  const locks = find('locks', flags.locks)
  if (masters !== undefined && locks !== undefined) {
    throw new UsageError(`Both ${masters.source} and ${locks.source} are given: give one of them.`)
  }
  return {
    masters: addresses(masters),
    locks: locks === undefined ? undefined : locksAddress(locks),
    queueRedis: queueRedis === undefined ? undefined : addressOf(queueRedis),
    namespace: name(find('namespace', flags.namespace)) ?? 'redlock',
    prefix: name(find('prefix', flags.prefix)) ?? 'bull',
    maxLeaseMs: wholeNumber(find('maxLeaseMs', flags.maxLeaseMs), 100, DAY_MS),
    timeoutMs: wholeNumber(find('timeoutMs', flags.timeoutMs), 10, 60_000) ?? 1_000,
  }
}

/** @throws UsageError that says how to name them. */
export function mastersOf({ masters, locks }: Settings): readonly MasterAddress[] {
  if (masters.length > 0) return masters
  if (locks !== undefined) {
    throw new UsageError(
      'This command is about Redis masters. With --locks there are doctor, leases, inspect, why, dashboard and work.',
    )
  }
  throw new UsageError(
    'Which masters? Give --master redis://lock-1:6379 for each of them, ' +
      `or ${ENVIRONMENT_OF.masters}=redis://lock-1:6379,redis://lock-2:6379,… , ` +
      'or `"masters": [...]` in the file that --config names.',
  )
}

/** @throws UsageError that says how to name it. */
export function queueRedisOf({ queueRedis }: Settings): MasterAddress {
  if (queueRedis !== undefined) return queueRedis
  throw new UsageError(
    `Which Redis has the queue? Give --queue-redis redis://queue:6379, or ${ENVIRONMENT_OF.queueRedis}, ` +
      'or `"queueRedis"` in the file that --config names.',
  )
}

/** A whole number from a flag. @throws UsageError naming the flag. */
export function numberFlag(flag: string, value: string, min: number, max: number): number {
  return wholeNumber({ value, source: flag }, min, max) ?? min
}

function given(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

function readFile(path: string): Readonly<Partial<Record<Key, unknown>>> {
  const fix =
    'write for example {"masters": ["redis://lock-1:6379"], "queueRedis": "redis://queue:6379"}'
  let content: unknown
  try {
    content = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    // V8's message quotes the text around the mistake, and with it perhaps a password.
    const why = error instanceof SyntaxError ? 'is not JSON' : redacted(String(error))
    throw new UsageError(`--config ${path}: ${why}; ${fix}`)
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new UsageError(`--config ${path}: expected an object; ${fix}`)
  }
  for (const key of Object.keys(content)) {
    if ((FILE_KEYS as readonly string[]).includes(key)) continue
    const known = FILE_KEYS.map((one) => `\`${one}\``).join(', ')
    throw new UsageError(`--config ${path}: \`${key}\` is not a setting; the settings are ${known}`)
  }
  return content
}

function refuse({ value, source }: Given, expected: string): never {
  const shown =
    typeof value === 'string' ? `"${shortened(printable(redacted(value)))}"` : typeof value
  throw new UsageError(`Expected ${source} to be ${expected}; got ${shown}`)
}

function addresses(found: Given | undefined): readonly MasterAddress[] {
  if (found === undefined) return []
  const { value, source } = found
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_MASTERS) {
    return refuse(found, `a list of 1 to ${MAX_MASTERS} redis:// URLs`)
  }
  const seen = new Set<string>()
  return value.map((one: unknown, index) => {
    const which = value.length === 1 ? source : `number ${index + 1} of ${source}`
    const address = addressOf({
      value: typeof one === 'string' ? one.trim() : one,
      source: which,
    })
    const key = JSON.stringify(address)
    if (seen.has(key)) {
      const name = masterName(address)
      throw new UsageError(`${source} names ${name} twice: name each master once`)
    }
    seen.add(key)
    return address
  })
}

function locksAddress({ value, source }: Given): string {
  if (typeof value === 'string' && isLocksAddress(value)) return value
  throw new UsageError(
    `Expected ${source} to be ${LOCKS_ADDRESS}. The value is not shown, because it may contain a password.`,
  )
}

/** An object is for what a URL cannot say, such as a certificate: ioredis takes it as it is. */
function addressOf(one: Given): MasterAddress {
  const { value } = one
  if (typeof value === 'object' && value !== null && ('host' in value || 'path' in value)) {
    return value as MasterAddress
  }
  return redisUrl(one)
}

function redisUrl(one: Given): string {
  const { value, source } = one
  if (
    typeof value !== 'string' ||
    !/^rediss?:\/\/[^/?#]+[^?#]*$/.test(value) ||
    !URL.canParse(value)
  ) {
    // A mistyped URL may have its password anywhere, so nothing of it is repeated.
    throw new UsageError(
      `Expected ${source} to be a redis:// or rediss:// URL without a query, such as redis://lock-1:6379. ` +
        'The value is not shown, because it may contain a password.',
    )
  }
  return value
}

function name(found: Given | undefined): string | undefined {
  if (found === undefined) return undefined
  const { value } = found
  if (typeof value === 'string' && value.length > 0 && value.length <= 256) return value
  return refuse(found, 'a text of 1 to 256 characters')
}

function wholeNumber(found: Given | undefined, min: number, max: number): number | undefined {
  if (found === undefined) return undefined
  const { value } = found
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) {
    return number
  }
  return refuse({ ...found, value: String(value) }, `a whole number from ${min} to ${max}`)
}
