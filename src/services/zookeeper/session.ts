/**
 * One session of ZooKeeper under our own deadlines. The client library pings a silent server and
 * waits without a limit, so a heartbeat that is not answered in time ends the connection here.
 *
 * A session that expired never comes back: its leases are gone, and `current()` opens another one.
 */
import { createClient, Exception, type Client, type Transaction } from 'node-zookeeper-client'
import { deadline, withinMs, type Clock, type Timer } from '../../clock.ts'

export interface SessionOptions {
  /** `host:2181,host:2181/path`. */
  readonly servers: string
  readonly timeoutMs: number
  readonly tickMs: number
  readonly auth: { readonly scheme: string; readonly auth: string } | undefined
  readonly clock: Clock
}
type Callback = (error: Error | Exception | null, value?: unknown) => void

/** Leaders ping every half tick; the rest is allowance. */
const RELAY_TICKS = 0.75
const HEARTBEATS_PER_TIMEOUT = 8
const SILENT = 1 / 3

export class Session {
  readonly client: Client
  readonly connected: Promise<void>
  readonly #clock: Clock
  readonly #tickMs: number
  readonly #touches: Touches
  /** Ends what is asked for when the session is over. The library would leave it unanswered. */
  readonly #asking = new Set<(error: Error) => void>()
  #heartbeat: Timer | undefined
  #id: string | undefined
  #isOver = false

  constructor({ servers, timeoutMs, tickMs, auth, clock }: SessionOptions) {
    this.#clock = clock
    this.#tickMs = tickMs
    this.#touches = new Touches(clock.now())
    this.client = createClient(servers, { sessionTimeout: timeoutMs, spinDelay: 100, retries: 0 })
    guard(this.#library)
    if (auth !== undefined) this.client.addAuthInfo(auth.scheme, Buffer.from(auth.auth))
    this.connected = new Promise((resolve, reject) => {
      this.client.on('connected', () => {
        const id = this.client.getSessionId().toString('hex')
        this.#id ??= id
        // Some servers hand out another session without a word: its nodes are not those of this
        // one.
        if (this.#id === id) resolve()
        else this.close()
      })
      for (const end of ['expired', 'authenticationFailed']) {
        this.client.on(end, () => {
          this.close()
          reject(new Error(`ZooKeeper ended the session: ${end}`))
        })
      }
    })
    this.connected.catch(() => undefined) // Reported to those who wait for it.
    this.client.on('disconnected', () => {
      this.#touches.broken(clock.now())
    })
    this.client.connect()
    this.#beat()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Connected. @throws Error where its leases would be over before they are granted. */
  async ready(): Promise<void> {
    await this.connected
    const advice = 'Set `tickMs` to the `tickTime` of the servers, or raise `leaseMs`.'
    const fact = `a session of ${this.timeoutMs} ms is too short for a \`tickMs\` of ${this.#tickMs}`
    // rule: session-is-longer-than-its-relays
    if (this.timeoutMs < 2 * RELAY_TICKS * this.#tickMs) throw new Error(`${fact}. ${advice}`)
  }

  /** As negotiated: the servers raise and lower what was asked for. */
  get timeoutMs(): number {
    return this.client.getSessionTimeout()
  }

  /** One request. Sent when the session is connected; the caller has a deadline. */
  ask(
    method: 'exists' | 'getChildren' | 'getData' | 'mkdirp' | 'remove',
    ...args: readonly unknown[]
  ): Promise<unknown> {
    return this.#ask((callback) => {
      const client: Readonly<Record<typeof method, (...given: never[]) => void>> = this.client
      client[method](...([...args, callback] as never[]))
    })
  }

  /** All or nothing, which a quorum commits. */
  commit(build: (transaction: Transaction) => void): Promise<unknown> {
    return this.#ask((callback) => {
      const transaction = this.client.transaction()
      build(transaction)
      transaction.commit(callback)
    })
  }

  #ask(send: (callback: Callback) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#asking.add(reject)
      this.#send(send)
        .finally(() => this.#asking.delete(reject))
        .then(resolve, reject)
    })
  }

  async #send(send: (callback: Callback) => void): Promise<unknown> {
    await this.connected
    if (this.#isOver) throw new Error(OVER)
    const startedAt = this.#clock.now()
    const value = await new Promise((resolve, reject) => {
      send((error, result) => {
        if (error === null || (error as unknown) === undefined) resolve(result)
        else reject(error instanceof Error ? error : new Error(String(error)))
      })
    })
    this.#touches.answered(startedAt, this.#clock.now())
    return value
  }

  /** After a write that began at `startedAt`: since when its session's timeout counts. */
  countsFrom(startedAt: number): number {
    return this.#touches.provenBy(startedAt, RELAY_TICKS * this.#tickMs)
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#heartbeat?.cancel()
    for (const end of this.#asking) end(new Error(OVER))
    // In the turn in which it begins to connect, the library has no socket, and would throw.
    process.nextTick(() => {
      this.client.close()
    })
    // It may say goodbye on the connection that it has or makes, and makes no other one.
    this.#library.connect = () => undefined
    // Without a connection the library would wait for one to say goodbye.
    this.#heartbeat = this.#clock.after(CLOSING_MS, () => {
      this.#disconnect()
    })
  }

  /** Closes, and waits a moment until the servers have removed the session's nodes. */
  async closed(): Promise<void> {
    const closed = new Promise<boolean>((resolve) => {
      this.client.once('disconnected', () => {
        resolve(true)
      })
    })
    this.close()
    // One that was never connected has no nodes.
    await withinMs(this.#clock, this.#id === undefined ? 0 : CLOSING_MS, closed)
    this.#heartbeat?.cancel()
    this.#disconnect()
  }

  #beat(): void {
    this.#heartbeat = this.#clock.after(this.timeoutMs / HEARTBEATS_PER_TIMEOUT, () => {
      let late: Timer | undefined
      // Again and again: the next server may be silent as well.
      const watch = (): void => {
        late = deadline(this.#clock, this.timeoutMs * SILENT, () => {
          this.#disconnect()
          if (!this.#isOver) watch()
        })
      }
      watch()
      this.ask('exists', '/')
        .catch(() => undefined) // The library connects again.
        .finally(() => {
          late?.cancel()
          if (!this.#isOver) this.#beat()
        })
    })
  }

  /** Makes the library look for another server. It has no call for that. */
  #disconnect(): void {
    this.#library.socket?.destroy()
  }

  get #library(): Internals {
    return (this.client as unknown as { readonly connectionManager: Internals }).connectionManager
  }
}

const CLOSING_MS = 300
const OVER = 'the session of ZooKeeper is over'

type Answered = (error: unknown, response?: unknown) => void

/** What the library keeps to itself. */
interface Internals {
  readonly socket?: { destroy(): void }
  readonly packetQueue: { readonly queue: readonly { readonly callback: Answered }[] }
  pendingBuffer: Buffer | null
  connect(): void
  onSocketData(data: Buffer): void
  queue(request: unknown, callback?: Answered): void
}

function lost(): unknown {
  const { create } = Exception as unknown as { readonly create: (code: number) => unknown }
  return create(Exception.CONNECTION_LOSS)
}

/**
 * The library throws from its `data` handler, where no code could catch it. It also forgets a
 * request whose answer it cannot read: its caller would never hear of it.
 */
function guard(library: Internals): void {
  const connect = library.connect.bind(library)
  const onSocketData = library.onSocketData.bind(library)
  const queue = library.queue.bind(library)
  const unanswered = new Set<Answered>()
  library.queue = (request, callback) => {
    const answered: Answered = (...answer) => {
      if (!unanswered.has(answered)) return
      // It throws at an error that the library does not know.
      // rule: answer-that-throws-is-none
      callback?.(...answer)
      unanswered.delete(answered)
    }
    unanswered.add(answered)
    queue(request, answered)
  }
  library.connect = () => {
    // It keeps the half of a reply that the last connection was cut in.
    // rule: connection-begins-without-a-rest
    library.pendingBuffer = null
    const waiting = new Set(library.packetQueue.queue.map(({ callback }) => callback))
    for (const answered of unanswered) {
      // rule: forgotten-request-is-lost
      if (!waiting.has(answered)) answered(lost())
    }
    connect()
  }
  library.onSocketData = (data) => {
    // rule: bad-reply-ends-its-connection
    try {
      onSocketData(data)
    } catch {
      library.pendingBuffer = null
      library.socket?.destroy()
    }
  }
}

/** A write that began longer ago has been given up. */
const LONGEST_WRITE_MS = 60_000

/**
 * Since when ZooKeeper counts a session's timeout, at the latest. Pure.
 *
 * A follower answers a request at once, and tells the leader that the session lives with the
 * leader's next ping: every half tick, so within a quarter of the smallest timeout (two ticks).
 * Only the leader's count decides. So a request proves nothing at first. It does when a later write
 * is answered: then the leader and a quorum were still there after the ping that followed the
 * request.
 */
export class Touches {
  #since: number
  /** Requests that were answered, oldest first: those of a minute, and one before it. */
  readonly #answered: { readonly startedAt: number; readonly answeredAt: number }[] = []

  /** @param since before the session was made or moved, which the leader itself does. */
  constructor(since: number) {
    this.#since = since
  }

  answered(startedAt: number, answeredAt: number): void {
    this.#answered.push({ startedAt, answeredAt })
    // A client may be connected for months, and write nothing.
    while ((this.#answered[1]?.answeredAt ?? Infinity) < answeredAt - LONGEST_WRITE_MS) {
      this.#answered.shift()
    }
  }

  /** The connection broke: what the follower had heard may be lost with it. */
  broken(at: number): void {
    this.#answered.length = 0
    this.#since = Math.max(this.#since, at)
  }

  /** A write that began at `startedAt` was answered. From when on the session's timeout counts. */
  provenBy(startedAt: number, relayMs: number): number {
    while ((this.#answered[0]?.answeredAt ?? Infinity) <= startedAt - relayMs) {
      this.#since = Math.max(this.#since, this.#answered.shift()?.startedAt ?? 0)
    }
    return this.#since
  }
}
