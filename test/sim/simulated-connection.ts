/**
 * A `Master` over the simulated network: the enrolment of `src/redlock/wire` without ioredis.
 *
 * It connects after construction, reads the server's facts, asks the fleet to admit it, loads the
 * scripts and may then vote. A socket that stays silent is replaced, and so is one whose server
 * died; every call has its deadline on the process's own clock, and what a closed socket still
 * carries may run later.
 */
import type { Redis } from 'ioredis'
import { instant, type Timer } from '../../src/clock.ts'
import {
  failed,
  notReady,
  type Asker,
  type CallResult,
  type Master,
  type MasterConnectionOptions,
  type MasterState,
  type Subscription,
} from '../../src/redlock/wire/master.ts'
import type { BatchScript, Constants } from '../../src/redlock/wire/batch-script.ts'
import type { Asked } from '../../src/redlock/wire/calls.ts'
import { inFull } from './simulated-scripts.ts'
import { Enrolment } from '../../src/redlock/wire/enrolment.ts'
import type { Script } from '../../src/lua.ts'
import { readServerFacts, type ServerFacts } from '../../src/redlock/wire/server-facts.ts'
import { SimulatedReplyError, type SimulatedMaster, type TimedReply } from './simulated-master.ts'
import type { Link, Socket } from './simulated-network.ts'
import type { VirtualClock } from './virtual-clock.ts'

export interface Wiring {
  readonly master: SimulatedMaster
  readonly link: Link
  readonly clock: VirtualClock
  /** Sees every call as it leaves, and every reply as it is made. */
  readonly observe: (event: 'call' | 'reply', asked: Asked, reply?: unknown) => void
}

type Answer =
  | { readonly kind: 'reply'; readonly reply: unknown }
  | { readonly kind: 'error' | 'closed'; readonly detail: string }

interface Conversation extends Socket {
  ready: boolean
  incarnation: number
  lastHeardAt: number
  readonly pending: Set<(answer: Answer) => void>
  silence: Timer | undefined
  forgetCrash: () => void
}

export class SimulatedConnection implements Master {
  readonly name: string
  readonly index: number
  readonly #options: MasterConnectionOptions
  readonly #constants: Constants
  readonly #wiring: Wiring
  readonly enrolment: Enrolment
  #socket: Conversation | undefined
  #failures = 0
  /** For the next attempt to connect, or the end of this one. */
  #timer: Timer | undefined

  constructor(options: MasterConnectionOptions, wiring: Wiring) {
    this.name = wiring.master.name
    this.index = options.index
    this.#options = options
    this.#constants = (options.script as BatchScript).constants
    this.#wiring = wiring
    this.enrolment = new Enrolment({
      clock: wiring.clock,
      readFacts: () => this.#readFacts(),
      admit: options.admit,
      loadScripts: async () => {
        await this.#need(() => {
          wiring.master.load()
        })
      },
      onState: options.onState,
    })
    this.#timer = wiring.clock.after(0, () => {
      this.#connect()
    })
  }

  get state(): MasterState {
    return this.enrolment.state
  }

  ask(asker: Asker): void {
    if (this.state.status !== 'enrolled') {
      asker.hear(this, notReady(this.state))
      return
    }
    const call = asker.leaving(this)
    if (call === undefined) return
    const { master, clock, observe } = this.#wiring
    const { asked } = call
    const { runId } = this.enrolment
    observe('call', asked)
    const sentAt = instant(clock)
    const run = (): unknown => {
      const entry = master.call(call, runId, this.#constants)
      observe('reply', asked, inFull(asked, entry.reply))
      return entry
    }
    void this.#ask(run).then((answer) => {
      if (answer.kind === 'reply') {
        const { serverMs } = answer.reply as TimedReply
        if (Number.isFinite(serverMs)) this.#options.onTime(this, serverMs, sentAt)
      }
      asker.hear(this, this.#resultOf(answer))
    })
  }

  listen(channel: string, heard: (message: string) => void): Subscription {
    const { master, link, clock } = this.#wiring
    const socket = link.socket()
    master.subscribe(channel, (message) => {
      if (this.state.status === 'closed' || clock.state === 'crashed') return
      link.carry('reply', socket, () => {
        clock.enter(() => {
          if (this.state.status !== 'closed') heard(message)
        })
      })
    })
    return { active: true }
  }

  async eval(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    return this.#need(() => this.#wiring.master.eval(script.name, keys, args))
  }

  async findKey(pattern: string): Promise<string | undefined> {
    const prefix = pattern.replace(/\*$/, '')
    const find = (): unknown =>
      this.#wiring.master.memory.keys().find((key) => key.startsWith(prefix))
    return (await this.#need(find)) as string | undefined
  }

  close(): void {
    if (this.state.status === 'closed') return
    this.#timer?.cancel()
    this.enrolment.close()
    this.#hangUp('Connection is closed.')
  }

  /** The network breaks the connection that stands now. */
  sever(): boolean {
    const socket = this.#socket
    if (socket?.ready !== true) return false
    this.#broken(socket, 'read ECONNRESET')
    return true
  }

  #connect(): void {
    const { master, link, clock } = this.#wiring
    const socket: Conversation = {
      ...link.socket(),
      ready: false,
      incarnation: 0,
      lastHeardAt: 0,
      pending: new Set(),
      silence: undefined,
      forgetCrash: () => undefined,
    }
    this.#socket = socket
    this.#timer = clock.after(this.#options.limits.connectTimeoutMs, () => {
      this.#broken(socket, 'connect ETIMEDOUT')
    })
    link.carry('request', socket, () => {
      if (master.state === 'down') {
        this.#reset(socket, 'connect ECONNREFUSED')
        return
      }
      socket.incarnation = master.incarnation
      socket.forgetCrash = master.onCrash(() => {
        this.#reset(socket, 'read ECONNRESET')
      })
      this.#hear(socket, () => {
        if (socket.ready) return
        this.#timer?.cancel()
        socket.ready = true
        this.#failures = 0
        this.enrolment.connected()
      })
    })
  }

  /** Something from the server reaches the process, unless it closed the socket before. */
  #hear(socket: Conversation, react: () => void): void {
    const { link, clock } = this.#wiring
    link.carry('reply', socket, () => {
      clock.enter(() => {
        if (!socket.closed) react()
      })
    })
  }

  #reset(socket: Conversation, why: string): void {
    this.#hear(socket, () => {
      this.#broken(socket, why)
    })
  }

  #broken(socket: Conversation, why: string): void {
    if (socket !== this.#socket || this.state.status === 'closed') return
    this.#timer?.cancel()
    this.enrolment.disconnected(why)
    this.#hangUp(why)
    const delayMs = Math.min(400, 25 * 2 ** Math.min(this.#failures++, 10))
    this.#timer = this.#wiring.clock.after(
      delayMs * (0.75 + this.#wiring.clock.random() / 2),
      () => {
        this.#connect()
      },
    )
  }

  #hangUp(why: string): void {
    const socket = this.#socket
    this.#socket = undefined
    if (socket === undefined) return
    socket.closed = true
    socket.silence?.cancel()
    socket.forgetCrash()
    for (const settle of [...socket.pending]) settle({ kind: 'closed', detail: why })
  }

  #ask(execute: () => unknown): Promise<Answer> {
    const socket = this.#socket
    const { master, link, clock } = this.#wiring
    if (socket?.ready !== true) {
      return Promise.resolve({ kind: 'closed', detail: 'Connection is closed.' })
    }
    return new Promise((resolve) => {
      const settle = (answer: Answer): void => {
        socket.pending.delete(settle)
        resolve(answer)
      }
      if (socket.pending.size === 0) socket.lastHeardAt = clock.now()
      socket.pending.add(settle)
      this.#watchSilence(socket)
      link.carry('request', socket, () => {
        if (master.state === 'down' || socket.incarnation !== master.incarnation) {
          this.#reset(socket, 'write EPIPE')
          return
        }
        master.take(() => {
          link.executes(socket)
          const answer = answerOf(execute)
          this.#hear(socket, () => {
            socket.lastHeardAt = clock.now()
            settle(answer)
          })
        })
      })
    })
  }

  /** Replaces a socket whose commands go unanswered. */
  #watchSilence(socket: Conversation): void {
    if (socket.silence !== undefined) return
    const { clock } = this.#wiring
    const { socketTimeoutMs } = this.#options.limits
    const look = (): void => {
      socket.silence = undefined
      if (socket.pending.size === 0) return
      const silentMs = clock.now() - socket.lastHeardAt
      if (silentMs >= socketTimeoutMs) this.#broken(socket, 'Socket timeout')
      else socket.silence = clock.after(socketTimeoutMs - silentMs, look)
    }
    socket.silence = clock.after(socketTimeoutMs, look)
  }

  async #need(execute: () => unknown): Promise<unknown> {
    const answer = await this.#ask(execute)
    if (answer.kind !== 'reply') throw new Error(answer.detail)
    return answer.reply
  }

  #resultOf(answer: Answer): CallResult {
    if (answer.kind === 'reply') return answer.reply as TimedReply
    const { detail } = answer
    if (answer.kind === 'closed') return failed('closed', detail, true)
    this.enrolment.onErrorReply(detail)
    return failed('error', detail, !detail.startsWith('NOSCRIPT'))
  }

  #readFacts(): Promise<ServerFacts> {
    const { master, clock } = this.#wiring
    const server = {
      info: () => this.#need(() => master.info()),
      config: (_get: string, name: string) => this.#need(() => [name, master.config(name)]),
      time: () => this.#need(() => [Math.floor(master.nowUs / 1e6), master.nowUs % 1e6]),
    }
    return readServerFacts(server as unknown as Redis, clock)
  }
}

function answerOf(execute: () => unknown): Answer {
  try {
    return { kind: 'reply', reply: execute() }
  } catch (error) {
    if (error instanceof SimulatedReplyError) return { kind: 'error', detail: error.message }
    throw error
  }
}
