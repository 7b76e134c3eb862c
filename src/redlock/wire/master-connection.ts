/**
 * The connection to one lock server: enrols it, calls its scripts, and keeps it from voting
 * whenever it might not be the server that was enrolled.
 */
import type { Redis } from 'ioredis'
import type { Timer } from '../../clock.ts'
import type { Script } from '../../lua.ts'
import { batchSender } from './batch-sender.ts'
import { CallQueue, onlyReply } from './calls.ts'
import { connectionSettings, masterName } from './connection-settings.ts'
import type { ConnectionLimits, MasterAddress } from './connection-settings.ts'
import {
  isErrorReply,
  notReady,
  type Master,
  type MasterConnectionOptions,
  type MasterState,
  type ScriptArgs,
  type Subscription,
} from './master.ts'
import { Enrolment, trialCall } from './enrolment.ts'
import { hearLateErrors, ioredis } from '../../ioredis.ts'
import { isLoading, LOADING, parseInfo, readServerFacts } from './server-facts.ts'
import { messageOf } from '../../message-of.ts'
import { TlsCheck } from '../../tls-check.ts'

/** A server that is ready says so sooner. */
const SLOW_MS = 500

export class MasterConnection implements Master {
  readonly name: string
  readonly index: number
  readonly ask: Master['ask']
  readonly #options: MasterConnectionOptions
  readonly #redis: Redis
  readonly enrolment: Enrolment
  readonly #listeners: Redis[] = []
  #lastError = 'not connected yet'
  readonly #tls: TlsCheck
  #wasReady = false
  #slow: Timer | undefined

  constructor(options: MasterConnectionOptions) {
    this.name = masterName(options.address)
    this.index = options.index
    this.#options = options
    this.#redis = openConnection(options.address, options.limits)
    this.#tls = new TlsCheck(this.#redis.options)
    const { clock, limits, admit } = options
    const sender = batchSender(this.#redis, options.script)
    this.enrolment = new Enrolment({
      ...{ clock, admit },
      readFacts: () => readServerFacts(this.#redis, clock),
      loadScripts: async () => {
        const { lua, sha1 } = options.script
        await this.#redis.script('LOAD', lua)
        // rule: every-master-passes-a-trial
        onlyReply(await this.#redis.evalsha(sha1, 0, trialCall.entry, ''))
      },
      onState: (state) => {
        options.onState(state)
        sender.enrolled(this.enrolment.runId)
        if (state.status === 'enrolled') calls.open()
        else calls.close(notReady(state))
      },
    })
    const calls = new CallQueue({
      ...{ master: this, clock, sender, silenceMs: limits.socketTimeoutMs, onTime: options.onTime },
      onError: (error) => {
        if (isErrorReply(error)) this.enrolment.onErrorReply(error.message)
      },
    })
    calls.close(notReady(this.state))
    this.ask = calls.ask
    this.#redis.on('error', (error: Error) => {
      this.#lastError = messageOf(error)
    })
    this.#redis.on('connect', () => {
      this.#slow?.cancel()
      this.#slow = clock.after(SLOW_MS, () => void this.#notReady())
    })
    this.#redis.on('ready', () => {
      this.#slow?.cancel()
      this.#wasReady = true
      this.#lastError = 'the connection was closed'
      this.enrolment.connected()
    })
    this.#redis.on('close', () => {
      this.#slow?.cancel()
      if (this.#wasReady) this.enrolment.disconnected(this.#lastError)
      else void this.#neverReady()
    })
  }

  get state(): MasterState {
    return this.enrolment.state
  }

  eval(script: Script, keys: readonly string[], args: ScriptArgs): Promise<unknown> {
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

  /** It is connected, and ioredis waits in silence until the server has read its data. */
  async #notReady(): Promise<void> {
    const info = parseInfo(await this.#redis.info().catch(() => ''))
    if (this.#redis.status !== 'connect' || !isLoading(info)) return
    this.enrolment.disconnected(LOADING)
    this.#slow = this.#options.clock.after(SLOW_MS, () => void this.#notReady())
  }

  async #neverReady(): Promise<void> {
    const detail = await this.#tls.explain(this.#lastError)
    if (!this.#wasReady) this.enrolment.disconnected(detail)
  }

  close(): void {
    if (this.state.status === 'closed') return
    this.enrolment.close()
    this.#slow?.cancel()
    this.#redis.disconnect()
    for (const listener of this.#listeners) listener.disconnect()
  }
}

function openConnection(address: MasterAddress, limits: ConnectionLimits): Redis {
  const { Redis } = ioredis()
  const settings = connectionSettings(limits)
  const redis =
    typeof address === 'string'
      ? new Redis(address, settings)
      : new Redis({ ...address, ...settings })
  // What matters of an error shows in the state.
  hearLateErrors(redis)
  redis.on('ready', () => {
    redis.client('SETNAME', 'bullmq-redlock').catch(() => undefined)
  })
  return redis
}
