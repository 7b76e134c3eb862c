import { randomBytes } from 'node:crypto'
import { instant, type Clock } from '../clock.ts'
import type { Call, Constants, Entry } from '../redlock/wire/batch.ts'
import { Enrolment } from '../redlock/wire/enrolment.ts'
import {
  notReady,
  type Master,
  type MasterConnectionOptions,
  type MasterState,
  type Request,
  type Subscription,
} from '../redlock/wire/master.ts'
import type { Script } from '../redlock/wire/script.ts'
import { SimulatedMemory } from './simulated-memory.ts'
import { simulateProcedure, simulateScript, type Reply } from './simulated-scripts.ts'

/** A lock server in this process. A test takes it away and brings it back. */
export class MemoryMaster {
  /** What the server is for, such as `memory-1`. */
  readonly name: string
  /** Its time. */
  readonly clock: Clock
  /** Its keys. */
  readonly memory: SimulatedMemory
  readonly #connections = new Set<MemoryConnection>()
  readonly #subscribers: { readonly channel: string; heard(message: string): void }[] = []
  #runId = newRunId()
  #state: 'up' | 'silent' | 'down' = 'up'

  constructor(name: string, clock: Clock) {
    this.name = name
    this.clock = clock
    this.memory = new SimulatedMemory(() => clock.wallNow())
  }

  /** `silent`: it takes what is sent and answers nothing. */
  get state(): 'up' | 'silent' | 'down' {
    return this.#state
  }

  /** Changes when its process does. */
  get runId(): string {
    return this.#runId
  }

  /** Its process dies, as after kill -9. */
  kill(): void {
    this.#state = 'down'
    for (const connection of this.#connections) connection.disconnected()
  }

  /**
   * It takes what is sent and answers nothing, as a frozen server or a black hole in the network.
   */
  silence(): void {
    if (this.#state === 'up') this.#state = 'silent'
  }

  /**
   * It is there (again). After {@link kill} it is another process; with `keepData: false` it has
   * forgotten its leases, and sits out one `maxLeaseMs` before it votes.
   */
  start({ keepData = true }: { readonly keepData?: boolean } = {}): void {
    const wasDown = this.#state === 'down'
    this.#state = 'up'
    if (!wasDown) return
    if (!keepData) this.memory.forgetAll()
    this.#runId = newRunId()
    for (const connection of this.#connections) connection.connected()
  }

  /** @internal */
  connect(options: MasterConnectionOptions): Master {
    const connection = new MemoryConnection(this, options, () => {
      this.#connections.delete(connection)
    })
    this.#connections.add(connection)
    // Its owner hears of it when it has it.
    queueMicrotask(() => {
      if (this.#state === 'down') connection.disconnected()
      else connection.connected()
    })
    return connection
  }

  /** @internal */
  run(script: Script, keys: readonly string[], args: readonly (string | number)[]): Reply {
    const { memory, nowUs } = this
    return simulateScript(script.name, { memory, keys, args: args.map(String), nowUs })
  }

  /** @internal */
  call({ procedure: { name }, args }: Call, runId: string, constants: Constants): Entry {
    const { memory, nowUs } = this
    const publish = (channel: string, message: string): void => {
      for (const each of this.#subscribers) if (each.channel === channel) each.heard(message)
    }
    const reply = simulateProcedure(name, { memory, args, runId, constants, nowUs, publish })
    return { ok: true, reply, serverMs: Math.floor(nowUs / 1_000) }
  }

  /** Its wall clock, in microseconds. */
  get nowUs(): number {
    return Math.floor(this.clock.wallNow() * 1_000)
  }

  /** @internal */
  subscribe(channel: string, heard: (message: string) => void): void {
    this.#subscribers.push({ channel, heard })
  }
}

class MemoryConnection implements Master {
  readonly #master: MemoryMaster
  readonly #enrolment: Enrolment
  readonly #onClose: () => void
  readonly #options: MasterConnectionOptions

  constructor(master: MemoryMaster, options: MasterConnectionOptions, onClose: () => void) {
    this.#master = master
    this.#onClose = onClose
    this.#options = options
    this.#enrolment = new Enrolment({
      clock: options.clock,
      readFacts: () =>
        Promise.resolve({
          runId: master.runId,
          version: '7.0.0',
          role: 'master',
          maxmemoryPolicy: 'noeviction',
          durable: false,
          clockOffsetMs: 0,
          roundTripMs: 0,
        }),
      admit: (facts) => options.admit(this, facts),
      loadScripts: () => Promise.resolve(),
      onState: (state) => {
        options.onState(this, state)
      },
    })
  }

  get name(): string {
    return this.#master.name
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

  connected(): void {
    if (this.state.status !== 'closed') this.#enrolment.connected()
  }

  disconnected(): void {
    this.#enrolment.disconnected('connect ECONNREFUSED')
  }

  ask(request: Request): void {
    if (this.state.status !== 'enrolled') request.asker.hear(request, notReady(this.state))
    else if (this.#master.state !== 'silent') {
      const { clock, constants } = this.#options
      const sentAt = instant(clock)
      queueMicrotask(() => {
        if (request.isSettled) return
        request.isSent = true
        const entry = this.#master.call(request.call, this.runId, constants)
        this.#options.onTime(this, entry.serverMs, sentAt)
        request.asker.hear(request, entry)
      })
    }
  }

  reenrol(why: string): void {
    this.#enrolment.reenrol(why)
  }

  whenEnrolled(limitMs: number): Promise<boolean> {
    return this.#enrolment.whenEnrolled(limitMs)
  }

  listen(channel: string, heard: (message: string) => void): Subscription {
    this.#master.subscribe(channel, (message) => {
      if (this.state.status !== 'closed') heard(message)
    })
    const master = this.#master
    return {
      get active() {
        return master.state === 'up'
      },
    }
  }

  eval(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    if (this.#master.state !== 'up') return Promise.reject(new Error('Connection is closed.'))
    return Promise.resolve(this.#master.run(script, keys, args))
  }

  findKey(pattern: string): Promise<string | undefined> {
    const prefix = pattern.replace(/\*$/, '')
    return Promise.resolve(this.#master.memory.keys().find((key) => key.startsWith(prefix)))
  }

  close(): void {
    if (this.state.status === 'closed') return
    this.#enrolment.close()
    this.#onClose()
  }
}

function newRunId(): string {
  return randomBytes(20).toString('hex')
}
