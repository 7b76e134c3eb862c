/**
 * One simulated lock server: a process with a run id, a memory and a clock.
 *
 *   up ─freeze()─▶ frozen (SIGSTOP): takes bytes in, executes them at the thaw
 *   up, frozen ─crash()─▶ down: every socket dies, and what it had taken in with them
 *   down ─restart(keep)─▶ up: another run id, no loaded scripts, and of its memory what `keep` says
 */
import type { SeededRandom } from './seeded-random.ts'
import type { Call } from '../../src/redlock/wire/calls.ts'
import type { Constants } from '../../src/redlock/wire/batch-script.ts'
import {
  inFull,
  readsTime,
  simulateProcedure,
  simulateScript,
  type Reply,
} from './simulated-scripts.ts'
import { JournaledMemory } from './journaled-memory.ts'
import type { WallClock } from './wall-clock.ts'

/** What survives a crash: `allButLastSecond` is what an AOF that is synced once a second keeps. */
export type Kept = 'all' | 'allButLastSecond' | 'nothing'

/**
 * What it keeps of its writes. `always`: each is on disk before its reply. `half`: the same, but
 * not while it rewrites its file (`no-appendfsync-on-rewrite`), which is when it crashes.
 */
export type Disk = 'none' | 'half' | 'always'

/** To one call. */
export interface TimedReply {
  readonly kind: 'replied'
  readonly reply: unknown
  /** The server's time; NaN where the verb did not read it. */
  readonly serverMs: number
}

/** An error the server answers with, as ioredis names it. */
export class SimulatedReplyError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ReplyError'
  }
}

export interface SimulatedMasterOptions {
  readonly name: string
  readonly random: SeededRandom
  readonly wall: WallClock
  readonly trueNow: () => number
  readonly disk: Disk
}

export class SimulatedMaster {
  readonly name: string
  readonly disk: Disk
  readonly wall: WallClock
  readonly memory: JournaledMemory
  /** How often each reply was given, by script and first word. */
  readonly replies = new Map<string, number>()
  readonly #random: SeededRandom
  #loaded = false
  readonly #onCrash = new Set<() => void>()
  readonly #subscribers: { channel: string; heard: (message: string) => void }[] = []
  #backlog: (() => void)[] = []
  #state: 'up' | 'frozen' | 'down' = 'up'
  #runId: string
  #incarnation = 1

  constructor(options: SimulatedMasterOptions) {
    this.name = options.name
    this.disk = options.disk
    this.wall = options.wall
    this.memory = new JournaledMemory(() => options.wall.now(), options.trueNow)
    this.#random = options.random
    this.#runId = this.#newRunId()
  }

  get state(): 'up' | 'frozen' | 'down' {
    return this.#state
  }

  /** As clients tell servers apart; it has never been a replica. */
  get runId(): string {
    return `${this.#runId}:`
  }

  info(): string {
    const aof = this.disk === 'none' ? '0' : '1'
    const lines = ['redis_version:7.0.15', 'role:master', 'maxmemory_policy:noeviction']
    return [...lines, `run_id:${this.#runId}`, `aof_enabled:${aof}`].join('\r\n')
  }

  config(name: string): string {
    if (name === 'appendfsync') return this.disk === 'none' ? 'everysec' : 'always'
    return this.disk === 'half' ? 'yes' : 'no'
  }

  /** Sockets belong to the process that accepted them. */
  get incarnation(): number {
    return this.#incarnation
  }

  get nowUs(): number {
    return Math.floor(this.wall.now() * 1000)
  }

  /** `run` is called as soon as the process gets to it; not at all when it dies before. */
  take(run: () => void): void {
    if (this.#state === 'up') run()
    else if (this.#state === 'frozen') this.#backlog.push(run)
  }

  /** @throws SimulatedReplyError when the library was not loaded since the process started. */
  call({ asked }: Call, runId: string, constants: Constants): TimedReply {
    if (!this.#loaded) throw new SimulatedReplyError('NOSCRIPT No matching script.')
    const { memory, nowUs } = this
    const publish = this.#publish
    const reply = simulateProcedure({ memory, asked, runId, constants, nowUs, publish })
    this.#count(asked.verb, inFull(asked, reply))
    const isTimed = readsTime(asked, memory, constants)
    return { kind: 'replied', reply, serverMs: isTimed ? Math.floor(nowUs / 1000) : NaN }
  }

  eval(name: string, keys: readonly string[], args: readonly (string | number)[]): Reply {
    const { memory, nowUs } = this
    const reply = simulateScript(name, { memory, keys, args: args.map(String), nowUs })
    this.#count(name, reply)
    return reply
  }

  /** Hears what is published; advisory, so a subscription survives restarts here. */
  subscribe(channel: string, heard: (message: string) => void): void {
    this.#subscribers.push({ channel, heard })
  }

  load(): void {
    this.#loaded = true
  }

  /** FLUSHALL: the same process, without its data. */
  flush(): void {
    this.memory.forgetAll()
  }

  freeze(): void {
    if (this.#state === 'up') this.#state = 'frozen'
  }

  thaw(): void {
    if (this.#state !== 'frozen') return
    this.#state = 'up'
    for (const run of this.#backlog.splice(0)) run()
  }

  crash(): void {
    if (this.#state === 'down') return
    this.#state = 'down'
    this.#backlog = []
    const listeners = [...this.#onCrash]
    this.#onCrash.clear()
    for (const listener of listeners) listener()
  }

  restart(kept: Kept): void {
    if (this.#state !== 'down') return
    if (kept === 'nothing') this.memory.forgetAll()
    if (kept === 'allButLastSecond') this.memory.forgetLast(this.#random.between(0, 1_000))
    this.#loaded = false
    this.#runId = this.#newRunId()
    this.#incarnation++
    this.#state = 'up'
  }

  /** Called once, when the process that runs now dies. Returns how to stop listening. */
  onCrash(listener: () => void): () => void {
    this.#onCrash.add(listener)
    return () => this.#onCrash.delete(listener)
  }

  readonly #publish = (channel: string, message: string): void => {
    for (const each of this.#subscribers) if (each.channel === channel) each.heard(message)
  }

  #count(name: string, reply: unknown): void {
    const word = `${name}:${Array.isArray(reply) ? String(reply[0]) : 'done'}`
    this.replies.set(word, (this.replies.get(word) ?? 0) + 1)
  }

  #newRunId(): string {
    const word = (): string => this.#random.integer(0, 2 ** 31).toString(16)
    return `${this.name}-${word()}${word()}`
  }
}
