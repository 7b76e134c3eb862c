/**
 * The connection to one lock server: enrols it, calls its scripts, and keeps it from voting whenever it might not be the
 * server that was enrolled.
 *
 * States and who changes them:
 *
 *   connecting ──ready──▶ enrolling ──admitted──▶ enrolled
 *       ▲                    │  ▲                    │
 *       │                    │  └── reenrol(): NOSCRIPT, READONLY, or a reply that says
 *       │                 refused   the server is not the one this connection enrolled
 *       └──── the socket closes, from any state ─────┘            close() ends them all
 *
 * Only `enrolled` may vote. On every connect the server's facts are read and `admit` (given by
 * the layer above, which knows about leases) decides; scripts are loaded *after* that, so whoever
 * finds a script missing knows that the server has not been enrolled since it started.
 * A refused master is asked again once a second: an operator may have repaired it.
 */
import { Redis } from 'ioredis'
import type { Timer } from '../clock.ts'
import { batchOf } from './batch.ts'
import { CallQueue, type QueuedCall } from './call-queue.ts'
import {
  connectionSettings,
  masterName,
  type ConnectionLimits,
  type MasterAddress,
} from './connection-settings.ts'
import {
  describeState,
  type CallResult,
  type Master,
  type MasterConnectionOptions,
  type MasterState,
} from './master.ts'
import { readServerFacts } from './server-facts.ts'
import type { Script } from './script.ts'

const REFUSED_RETRY_MS = 1_000

/** Error replies of a server that may not be the one enrolled any more. */
const REENROL_ON = /^(NOSCRIPT|READONLY|MASTERDOWN)/

export class MasterConnection implements Master {
  readonly name: string
  readonly firstAnswer: Promise<void>
  readonly #options: MasterConnectionOptions
  readonly #redis: Redis
  readonly #scripts: readonly Script[]
  readonly #calls: CallQueue
  #state: MasterState = { status: 'connecting', detail: 'connecting for the first time' }
  #answerFirst: () => void = () => undefined
  #lastError = 'not connected yet'
  /** Raised at every connect and disconnect: an enrolment that began before is void. */
  #epoch = 0
  #retry: Timer | undefined
  readonly #waiters = new Set<(enrolled: boolean) => void>()
  readonly #listeners: Redis[] = []

  constructor(options: MasterConnectionOptions) {
    this.name = masterName(options.address)
    this.#options = options
    this.firstAnswer = new Promise((resolve) => {
      this.#answerFirst = resolve
    })
    this.#redis = openConnection(options.address, options.limits)
    const batch = batchOf(options.scripts)
    this.#scripts = [...options.scripts, batch]
    this.#calls = new CallQueue({
      clock: options.clock,
      batch,
      send: ({ script, keys, args }) =>
        this.#redis.evalsha(script.sha1, keys.length, ...keys, ...args),
      onError: (error) => {
        if (isErrorReply(error) && REENROL_ON.test(error.message)) this.reenrol(error.message)
      },
    })
    this.#redis.on('error', (error: Error) => {
      this.#lastError = error.message === '' ? error.name : error.message
    })
    this.#redis.on('ready', () => {
      this.#enrol('connected')
    })
    this.#redis.on('close', () => {
      if (this.#state.status === 'closed') return
      this.#epoch++
      this.#enter({ status: 'connecting', detail: this.#lastError })
      this.#answerFirst()
    })
  }

  get state(): MasterState {
    return this.#state
  }

  get runId(): string {
    return this.#state.status === 'enrolled' ? this.#state.facts.runId : ''
  }

  call(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    timeoutMs: number,
  ): Promise<CallResult> {
    if (this.#state.status !== 'enrolled') {
      return Promise.resolve({
        ok: false,
        reason: 'not-ready',
        detail: describeState(this.#state),
        mayHaveRun: false,
      })
    }
    return new Promise((resolve) => {
      const call = new PendingCall(script, keys, args, resolve)
      call.deadline = this.#options.clock.after(timeoutMs, () => {
        call.expire(timeoutMs)
      })
      this.#calls.add(call)
    })
  }

  reenrol(why: string): void {
    if (this.#state.status === 'enrolled') this.#enrol(why)
  }

  eval(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    return this.#redis.eval(script.lua, keys.length, ...keys, ...args)
  }

  listen(channel: string, heard: (message: string) => void): void {
    if (this.#state.status === 'closed') return
    const { address, limits } = this.#options
    const listener = openConnection(address, limits)
    listener.on('ready', () => {
      // A server that denies it leaves the waiters to their retry delays.
      listener.subscribe(channel).catch(() => undefined)
    })
    listener.on('message', (_channel: string, message: string) => {
      heard(message)
    })
    this.#listeners.push(listener)
  }

  async findKey(pattern: string): Promise<string | undefined> {
    let cursor = '0'
    do {
      const [next, keys] = await this.#redis.scan(cursor, 'MATCH', pattern, 'COUNT', 1000)
      if (keys[0] !== undefined) return keys[0]
      cursor = next
    } while (cursor !== '0')
    return undefined
  }

  whenEnrolled(limitMs: number): Promise<boolean> {
    if (this.#state.status === 'enrolled') return Promise.resolve(true)
    if (this.#state.status === 'closed') return Promise.resolve(false)
    return new Promise((resolve) => {
      const settle = (enrolled: boolean): void => {
        limit.cancel()
        this.#waiters.delete(settle)
        resolve(enrolled)
      }
      const limit = this.#options.clock.after(limitMs, () => {
        settle(false)
      })
      this.#waiters.add(settle)
    })
  }

  close(): void {
    if (this.#state.status === 'closed') return
    this.#epoch++
    this.#enter({ status: 'closed' })
    this.#answerFirst()
    this.#redis.disconnect()
    for (const listener of this.#listeners) listener.disconnect()
  }

  #enter(state: MasterState): void {
    this.#retry?.cancel()
    this.#retry = undefined
    this.#state = state
    this.#options.onState(this, state)
    if (state.status !== 'enrolled') {
      for (const call of this.#calls.clear()) call.onError(new Error(describeState(state)))
    }
    if (state.status === 'enrolled' || state.status === 'closed') {
      for (const settle of [...this.#waiters]) settle(state.status === 'enrolled')
    }
  }

  #enrol(why: string): void {
    const epoch = ++this.#epoch
    this.#enter({ status: 'enrolling', detail: why })
    void this.#tryEnrol().then((state) => {
      if (epoch !== this.#epoch) return
      this.#enter(state)
      this.#answerFirst()
      if (state.status !== 'enrolled') {
        this.#retry = this.#options.clock.after(REFUSED_RETRY_MS, () => {
          this.#enrol('asking again')
        })
      }
    })
  }

  async #tryEnrol(): Promise<MasterState> {
    try {
      const facts = await readServerFacts(this.#redis, this.#options.clock)
      const admission = await this.#options.admit(this, facts)
      if (!admission.admitted) return { status: 'refused', ...admission }
      for (const script of this.#scripts) await this.#redis.script('LOAD', script.lua)
      return { status: 'enrolled', facts }
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error)
      return { status: 'connecting', detail: `could not be enrolled: ${detail}` }
    }
  }
}

/** A call on its way: settled once, by its reply, an error or its deadline. */
class PendingCall implements QueuedCall {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
  settled = false
  left = false
  deadline: Timer | undefined
  readonly #resolve: (result: CallResult) => void

  constructor(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    resolve: (result: CallResult) => void,
  ) {
    this.script = script
    this.keys = keys
    this.args = args
    this.#resolve = resolve
  }

  onReply(reply: unknown): void {
    this.#settle({ ok: true, reply })
  }

  onError(error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error)
    const mayHaveRun = this.left && !detail.startsWith('NOSCRIPT')
    const reason = !this.left ? 'not-ready' : isErrorReply(error) ? 'error' : 'closed'
    this.#settle({ ok: false, reason, detail, mayHaveRun })
  }

  expire(timeoutMs: number): void {
    const detail = `no reply within ${Math.ceil(timeoutMs)} ms`
    this.#settle({ ok: false, reason: 'timeout', detail, mayHaveRun: this.left })
  }

  #settle(result: CallResult): void {
    this.deadline?.cancel()
    this.settled = true
    this.#resolve(result)
  }
}

function openConnection(address: MasterAddress, limits: ConnectionLimits): Redis {
  const settings = connectionSettings(limits)
  const redis =
    typeof address === 'string'
      ? new Redis(address, settings)
      : new Redis({ ...address, ...settings })
  // Without a listener Node would throw; what matters of an error shows in the state.
  redis.on('error', () => undefined)
  return redis
}

/** ioredis marks an error that the server sent as `ReplyError`. */
function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}
