/** Settings: from flags, else the environment, else a JSON file. An error names the source. */
import { readFileSync } from 'node:fs'
import { DAY_MS } from '../../clock.ts'
import {
  isRedisUrl,
  masterName,
  REDIS_URL,
  type MasterAddress,
} from '../../redlock/wire/connection-settings.ts'
import { UsageError } from './exit-code.ts'
import { isQueueAddress } from '../dashboard/options.ts'
import { isLocksAddress, LOCKS_ADDRESS } from '../operator/open-locks.ts'
import { shortened } from '../../options.ts'
import { printable } from '../operator/words.ts'
import { shownValue } from '../../redact.ts'

export interface CliSettings {
  readonly masters: readonly MasterAddress[]
  /** The address of another lock service; then there are no masters. */
  readonly locks: string | undefined
  readonly maxLeaseMs: number | undefined
  /** Of the fleet before a resize, which workers follow. */
  readonly previousMasters: readonly MasterAddress[]
  readonly previousMaxLeaseMs: number | undefined
  readonly queueRedis: MasterAddress | undefined
  readonly prefix: string
  readonly namespace: string
  readonly timeoutMs: number
}

type Key = keyof CliSettings

/** A value and the name under which it was given. */
export interface Given {
  readonly value: unknown
  readonly source: string
}

interface Setting<Value> {
  /** As commander declares it. */
  readonly flag: string
  /** Of a list: under this name commander has the flag, which is given for each. */
  readonly repeated?: string
  readonly variable: string
  /** The servers that it names; without it, every command that needs a server. */
  readonly servers?: 'masters' | 'queue'
  readonly help: string
  readonly byDefault?: Value
  /** What holds where it is not given, in words. */
  readonly otherwise?: string
  readonly read: (found: Given) => Value
}

const MAX_MASTERS = 99

/** By their keys in the file, in the order of the help. */
export const SETTINGS: { readonly [K in Key]: Setting<CliSettings[K]> } = {
  masters: {
    flag: '--master <url>',
    repeated: 'master',
    variable: 'BULLMQ_REDLOCK_MASTERS',
    servers: 'masters',
    help: 'a lock master; repeat it for each, or separate them by commas in the variable',
    byDefault: [],
    read: addresses,
  },
  locks: {
    flag: '--locks <address>',
    variable: 'BULLMQ_REDLOCK_LOCKS',
    servers: 'masters',
    help: 'another lock service: postgres://…, etcd:https://a,b or zookeeper:a:2181,b:2181',
    read: locksAddress,
  },
  maxLeaseMs: {
    flag: '--max-lease-ms <n>',
    variable: 'BULLMQ_REDLOCK_MAX_LEASE_MS',
    servers: 'masters',
    help: "the fleet's maxLeaseMs",
    otherwise: 'what the masters have stored',
    read: (found) => wholeNumber(found, 100, DAY_MS),
  },
  previousMasters: {
    flag: '--previous-master <url>',
    repeated: 'previousMaster',
    variable: 'BULLMQ_REDLOCK_PREVIOUS_MASTERS',
    servers: 'masters',
    help: 'for work: a master of the fleet before `resize`; repeat it for each',
    byDefault: [],
    read: addresses,
  },
  previousMaxLeaseMs: {
    flag: '--previous-max-lease-ms <n>',
    variable: 'BULLMQ_REDLOCK_PREVIOUS_MAX_LEASE_MS',
    servers: 'masters',
    help: 'for work: maxLeaseMs of the fleet before `resize`',
    read: (found) => wholeNumber(found, 100, DAY_MS),
  },
  queueRedis: {
    flag: '--queue-redis <url>',
    variable: 'BULLMQ_REDLOCK_QUEUE',
    servers: 'queue',
    help: "BullMQ's Redis",
    read: queueAddressOf,
  },
  prefix: {
    flag: '--prefix <text>',
    variable: 'BULLMQ_REDLOCK_PREFIX',
    servers: 'queue',
    help: "BullMQ's key prefix",
    byDefault: 'bull',
    read: name,
  },
  namespace: {
    flag: '--namespace <text>',
    variable: 'BULLMQ_REDLOCK_NAMESPACE',
    help: 'of the leases',
    byDefault: 'redlock',
    read: name,
  },
  timeoutMs: {
    flag: '--timeout-ms <n>',
    variable: 'BULLMQ_REDLOCK_TIMEOUT_MS',
    help: 'how long a server may take to answer',
    byDefault: 1_000,
    read: (found) => wholeNumber(found, 10, 60_000),
  },
}

const KEYS = Object.keys(SETTINGS) as readonly Key[]

/** Flags by commander's names. */
export type Flags = Readonly<Record<string, unknown>>

export type Environment = Readonly<Record<string, string | undefined>>

export const CONFIG: Omit<Setting<string>, 'read'> = {
  ...{ flag: '--config <file>', variable: 'BULLMQ_REDLOCK_CONFIG' },
  help: 'JSON file with these settings',
}
/** Gives access to the dashboard. */
export const TOKEN_VARIABLE = 'BULLMQ_REDLOCK_DASHBOARD_TOKEN'
export const OPERATOR_TOKEN_VARIABLE = 'BULLMQ_REDLOCK_OPERATOR_TOKEN'

const VARIABLES = [
  ...[...Object.values(SETTINGS), CONFIG].map(({ variable }) => variable),
  ...[TOKEN_VARIABLE, OPERATOR_TOKEN_VARIABLE],
]
/** As Kubernetes sets them in every pod for a service that is named like this package. */
const OF_KUBERNETES = /_SERVICE_(HOST|PORT\w*)$|_PORT(_\d+_\w+)?$/

/** @throws UsageError for the first setting that cannot be used. */
export function readSettings(flags: Flags, env: Environment): CliSettings {
  refuseUnknown(env)
  const path = (flags['config'] as string | undefined) ?? (env[CONFIG.variable] || undefined)
  const file = path === undefined ? {} : readFile(path)
  const find = (key: Key): Given | undefined => {
    const { flag, repeated, variable } = SETTINGS[key]
    const text = env[variable] || undefined
    const given: readonly Given[] = [
      { value: flags[repeated ?? key], source: flag.split(' ', 1)[0] ?? flag },
      { value: repeated === undefined ? text : text?.split(','), source: variable },
      { value: file[key], source: `\`${key}\` in ${path ?? 'the file'}` },
    ]
    return given.find(({ value }) => value !== undefined)
  }
  const [masters, locks] = [find('masters'), find('locks')]
  if (masters !== undefined && locks !== undefined) {
    throw new UsageError(`Both ${masters.source} and ${locks.source} are given: give one of them.`)
  }
  const read = KEYS.map((key) => {
    const found = find(key)
    return [key, found === undefined ? SETTINGS[key].byDefault : SETTINGS[key].read(found)]
  })
  return Object.fromEntries(read) as CliSettings
}

/** @throws UsageError that says how to name them. */
export function mastersOf({ masters, locks }: CliSettings): readonly MasterAddress[] {
  if (masters.length > 0) return masters
  if (locks !== undefined) {
    throw new UsageError(
      'This command works only with Redis masters. With --locks, use doctor, leases, inspect, why, dashboard or work.',
    )
  }
  throw new UsageError(
    'No lock masters are given. Give --master redis://lock-1:6379 for each of them, ' +
      `or ${SETTINGS.masters.variable}=redis://lock-1:6379,redis://lock-2:6379,… , ` +
      'or `"masters": [...]` in the file that --config names.',
  )
}

/** @throws UsageError that says how to name it. */
export function queueRedisOf({ queueRedis }: CliSettings): MasterAddress {
  if (queueRedis !== undefined) return queueRedis
  throw new UsageError(
    `The queue's Redis is not given. Give --queue-redis redis://queue:6379, or ${SETTINGS.queueRedis.variable}, ` +
      'or `"queueRedis"` in the file that --config names.',
  )
}

function readFile(path: string): Readonly<Partial<Record<Key, unknown>>> {
  const fix =
    'write for example {"masters": ["redis://lock-1:6379"], "queueRedis": "redis://queue:6379"}'
  const bad = (why: string): UsageError => new UsageError(`--config ${shownValue(path)}: ${why}`)
  let content: unknown
  try {
    content = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    // V8's message quotes the text around the mistake, and with it perhaps a password.
    // That of the file system repeats the path.
    const { code } = error as NodeJS.ErrnoException
    const why = error instanceof SyntaxError ? 'is not JSON' : `cannot be read (${code ?? 'error'})`
    throw bad(`${why}; ${fix}`)
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw bad(`expected an object; ${fix}`)
  }
  const unknown = Object.keys(content).find((key) => !Object.hasOwn(SETTINGS, key))
  if (unknown !== undefined) {
    const known = KEYS.map((one) => `\`${one}\``).join(', ')
    throw bad(`\`${shownValue(unknown)}\` is not a setting; the settings are ${known}`)
  }
  return content
}

/** A misspelt variable would be a setting that is missing. */
function refuseUnknown(env: Environment): void {
  const ours = Object.keys(env).filter((name) => name.startsWith('BULLMQ_REDLOCK_'))
  const unknown = ours.find((name) => !OF_KUBERNETES.test(name) && !VARIABLES.includes(name))
  if (unknown === undefined) return
  throw new UsageError(`${unknown} is not a setting; the variables are ${VARIABLES.join(', ')}`)
}

function refuse({ value, source }: Given, expected: string): never {
  const shown =
    typeof value === 'string' ? `"${shortened(printable(shownValue(value)))}"` : typeof value
  throw new UsageError(`Expected ${source} to be ${expected}; got ${shown}`)
}

/** A mistyped URL may have its password anywhere, so nothing of it is repeated. */
function refuseHidden(source: string, expected: string): never {
  const hidden = 'The value is not shown, because it may contain a password.'
  throw new UsageError(`Expected ${source} to be ${expected}. ${hidden}`)
}

/** @throws UsageError. */
export function addresses(found: Given): readonly MasterAddress[] {
  const { value, source } = found
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_MASTERS) {
    return refuse(found, `a list of 1 to ${MAX_MASTERS} redis:// URLs`)
  }
  const all = value.map((one: unknown, index) =>
    addressOf({
      value: typeof one === 'string' ? one.trim() : one,
      source: value.length === 1 ? source : `number ${index + 1} of ${source}`,
    }),
  )
  const keys = all.map((address) => JSON.stringify(address))
  const twice = all.find((_, index) => keys.indexOf(keys[index] ?? '') < index)
  if (twice === undefined) return all
  throw new UsageError(`${source} names ${masterName(twice)} twice: name each master once`)
}

function locksAddress({ value, source }: Given): string {
  if (typeof value === 'string' && isLocksAddress(value)) return value
  return refuseHidden(source, LOCKS_ADDRESS)
}

/** An object is for what a URL cannot say, such as a certificate: ioredis takes it as it is. */
function addressOf({ value, source }: Given): MasterAddress {
  if (typeof value === 'object' && value !== null && ('host' in value || 'path' in value)) {
    return value as MasterAddress
  }
  if (isRedisUrl(value)) return value
  const example = 'such as redis://lock-1:6379 (in a file also an object with `host`)'
  return refuseHidden(source, `${REDIS_URL}, ${example}`)
}

/** Sentinels say where the queue's server is; a lock master has no replica that could follow it. */
function queueAddressOf(found: Given): MasterAddress {
  return isQueueAddress(found.value) ? found.value : addressOf(found)
}

function name(found: Given): string {
  const { value } = found
  if (typeof value === 'string' && value.length > 0 && value.length <= 256) return value
  return refuse(found, 'a text of 1 to 256 characters')
}

/** @throws UsageError. */
export function wholeNumber(found: Given, min: number, max: number): number {
  const { value } = found
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) {
    return number
  }
  return refuse({ ...found, value: String(value) }, `a whole number from ${min} to ${max}`)
}
