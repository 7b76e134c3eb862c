/**
 * The connection to one lock server: enrols it, calls its scripts, and keeps it from voting whenever it might not be the
 * server that was enrolled.
 */
import { Redis } from 'ioredis'
import type { Timer } from '../clock.ts'
import { batchArgs, batchScript, type Call, type Entry } from './batch.ts'
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
  type Subscription,
} from './master.ts'
import { Enrolment } from './enrolment.ts'
import { readServerFacts } from './server-facts.ts'
import type { Script } from './script.ts'

export class MasterConnection implements Master {
  readonly name: string
  readonly #options: MasterConnectionOptions
  readonly #redis: Redis
  readonly #enrolment: Enrolment
  readonly #calls: CallQueue
  readonly #listeners: Redis[] = []
  #lastError = 'not connected yet'

  constructor(options: MasterConnectionOptions) {
    this.name = masterName(options.address)
    this.#options = options
    this.#redis = openConnection(options.address, options.limits)
    const batch = batchScript(options.library)
    this.#enrolment = new Enrolment({
      clock: options.clock,
      readFacts: () => readServerFacts(this.#redis, options.clock),
      admit: (facts) => options.admit(this, facts),
      loadScripts: async () => {
        await this.#redis.script('LOAD', batch.lua)
      },
      onState: (state) => {
        options.onState(this, state)
        if (state.status === 'enrolled') return
        for (const call of this.#calls.clear()) call.onError(new Error(describeState(state)))
      },
    })
    this.#calls = new CallQueue({
      clock: options.clock,
      send: (calls) =>
        this.#redis.evalsha(batch.sha1, 0, ...batchArgs(calls, this.runId, options.standing)),
      onError: (error) => {
        if (isErrorReply(error)) this.#enrolment.onErrorReply(error.message)
      },
    })
    this.#redis.on('error', (error: Error) => {
      this.#lastError = error.message === '' ? error.name : error.message
    })
    this.#redis.on('ready', () => {
      this.#enrolment.connected()
    })
    this.#redis.on('close', () => {
      this.#enrolment.disconnected(this.#lastError)
    })
  }

  get state(): MasterState {
    return this.#enrolment.state
  }

  get runId(): string {
    return this.#enrolment.runId
  }

  get firstAnswer(): Promise<void> {
    return this.#enrolment.firstAnswer
  }

  call(call: Call, timeoutMs: number): Promise<CallResult> {
    if (this.state.status !== 'enrolled') {
      const detail = describeState(this.state)
      return Promise.resolve({ ok: false, reason: 'not-ready', detail, mayHaveRun: false })
    }
    return new Promise((resolve) => {
      const pending = new PendingCall(call, resolve)
      pending.deadline = this.#options.clock.after(timeoutMs, () => {
        pending.expire(timeoutMs)
      })
      this.#calls.add(pending)
    })
  }

  reenrol(why: string): void {
    this.#enrolment.reenrol(why)
  }

  eval(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    return this.#redis.eval(script.lua, keys.length, ...keys, ...args)
  }

  listen(channel: string, heard: (message: string) => void): Subscription {
    const subscription = { active: false }
    if (this.state.status === 'closed') return subscription
    const { address, limits } = this.#options
    const listener = openConnection(address, limits)
    listener.on('ready', () => {
      // A server that denies it leaves the waiters to their retry delays.
      listener.subscribe(channel).then(
        () => (subscription.active = true),
        () => undefined,
      )
    })
    listener.on('close', () => {
      subscription.active = false
    })
    listener.on('message', (_channel: string, message: string) => {
      heard(message)
    })
    this.#listeners.push(listener)
    return subscription
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
    return this.#enrolment.whenEnrolled(limitMs)
  }

  close(): void {
    if (this.state.status === 'closed') return
    this.#enrolment.close()
    this.#redis.disconnect()
    for (const listener of this.#listeners) listener.disconnect()
  }
}

/** A call on its way: settled once, by its reply, an error or its deadline. */
class PendingCall implements QueuedCall {
  readonly call: Call
  settled = false
  left = false
  deadline: Timer | undefined
  readonly #resolve: (result: CallResult) => void

  constructor(call: Call, resolve: (result: CallResult) => void) {
    this.call = call
    this.#resolve = resolve
  }

  onReply({ reply, serverMs }: Entry): void {
    this.#settle({ ok: true, reply, serverMs })
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
