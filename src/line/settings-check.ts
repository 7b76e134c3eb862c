/**
 * All that work on a queue must have the same namespace, order and slots. Else jobs of one resource
 * run at once, or wait in lines that no worker moves. A deploy that changes a setting has both for
 * a while, so a difference is reported and not refused. Each process says what it has in the
 * queue's Redis, and reports others that differ.
 */
import { SettingsDifferError } from '../errors.ts'
import { keyScript } from './bullmq/composed-script.ts'
import type { LineBackend } from './line-backend.ts'

/** What has to be the same, and which class has it. */
export interface SharedSettings {
  readonly by: 'LockedQueue' | 'LockedWorker'
  readonly namespace: string
  readonly order: 'strict' | 'relaxed'
  readonly slots: number
}

/** Which queue of a Redis. */
export interface QueueName {
  readonly prefix: string
  readonly queue: string
}

const COMPARED = ['namespace', 'order', 'slots'] as const
/** How often a process says what it has. */
export const PUBLISH_INTERVAL_MS = 60_000
/** How long what a process said is compared. */
const ENTRY_TTL_MS = 600_000

/**
 * KEYS  1 settings of the queue
 * ARGV  1 space · 2 slots · 3 settings (JSON) · 4 ttlMs
 * Returns  all settings that were said, each with the time in ms
 */
const exchangeScript = keyScript(
  'settings',
  `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs - ARGV[4])
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
redis.call('ZADD', KEYS[1], nowMs, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return found
`,
)

/** Where they are. Not under the namespace, which may be what differs. */
export function settingsKey({ prefix, queue }: QueueName): string {
  return `redlock:settings:${prefix}:${queue}`
}

export class SettingsCheck {
  readonly #backend: LineBackend
  readonly #queue: QueueName
  readonly #mine: SharedSettings

  constructor(backend: LineBackend, queue: QueueName, mine: SharedSettings) {
    this.#backend = backend
    this.#queue = queue
    this.#mine = mine
  }

  /** Whether a LockedWorker has said anything lately; false also where none has started yet. */
  async knowsWorker(): Promise<boolean> {
    const found = await this.#exchange()
    return found.some((said) => said.includes('"LockedWorker"'))
  }

  /** Says what this process has and finds others that differ. */
  async exchange(): Promise<readonly SettingsDifferError[]> {
    const found = await this.#exchange()
    const errors: SettingsDifferError[] = []
    for (let index = 0; index + 1 < found.length; index += 2) {
      const theirs = JSON.parse(found[index] ?? '{}') as SharedSettings
      const differences = COMPARED.flatMap((name) => {
        const [here, there] = [this.#mine[name], theirs[name]]
        return here === there ? [] : [{ name, here, there }]
      })
      if (differences.length === 0) continue
      const both = [this.#mine.by, theirs.by] as const
      const at = new Date(Number(found[index + 1]))
      errors.push(new SettingsDifferError(this.#queue.queue, both, differences, at))
    }
    return errors
  }

  async #exchange(): Promise<readonly string[]> {
    const args = [JSON.stringify(this.#mine), ENTRY_TTL_MS]
    const reply = await this.#backend.runOn(exchangeScript, settingsKey(this.#queue), args)
    return reply as readonly string[]
  }
}
