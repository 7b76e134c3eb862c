/**
 * A TCP proxy in front of a server, for network faults that a killed or frozen server cannot show.
 *
 * TCP never loses bytes out of the middle of a stream. So a connection in which this proxy lost
 * something stays silent in that direction, and is reset when the fault is over: were it resumed,
 * a client would take the next reply for the lost one. Connections that lost nothing go on.
 * {@link FaultProxy.holdReplies} is the other kind of fault: everything arrives, only later.
 *
 * A connection to a server that is down is accepted and reset at once, where the server itself
 * would have refused it; {@link FaultProxy.refuse} refuses.
 */

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { TestNetwork } from '../../src/testing/index.ts'
import { returnPort, takePort } from '../../src/testing/free-port.ts'
import { forwardingRule, Lane, type LaneCounters, type LaneRule } from './proxy-lane.ts'

const HOST = '127.0.0.1'

export interface FaultProxy extends AsyncDisposable {
  readonly port: number
  /** `redis://127.0.0.1:port` */
  readonly url: string
  readonly counters: ProxyCounters
  /** Everything as if there were no proxy; ends every other mode, delays and holds included. */
  pass(): Promise<void>
  /** A black hole: connections are accepted and nothing is forwarded, closing included. */
  drop(): Promise<void>
  /** Requests vanish, so the server does nothing. */
  dropRequests(): Promise<void>
  /** Requests are done and the replies vanish. */
  dropReplies(): Promise<void>
  /** Nobody listens and every connection is reset, until {@link pass} listens on the same port. */
  refuse(): Promise<void>
  /** Forwards new connections to another server on this machine. */
  redirect(port: number): void
  /** Resets (RST) the connections of this moment; new ones are welcome. */
  reset(): void
  /** Delays from now on; in each connection and direction the order stays. */
  delay(delays: Delays): void
  /** Forwards byte by byte from now on, as the worst of networks may. */
  trickle(): void
  /** Keeps replies back, in order, until the returned hold is released. */
  holdReplies(): Hold
  /** Keeps requests back, in order, until the returned hold is released. */
  holdRequests(): Hold
  close(): Promise<void>
}

/** Milliseconds for each chunk, or a function that says how many: `() => Math.random() * 50`. */
export interface Delays {
  readonly requestsMs?: number | (() => number)
  readonly repliesMs?: number | (() => number)
}

export interface Hold {
  /** Resolves with the first bytes that are kept back: for replies, when the server has acted. */
  readonly held: Promise<void>
  /** Lets everything through, in order. Connections go on as if the network had been slow. */
  release(): void
  /** Loses what is kept back, and resets the connections it belonged to. */
  lose(): void
}

export interface ProxyCounters {
  /** Accepted so far. */
  readonly connections: number
  /** Present now. */
  readonly open: number
  /** Connections reset by a fault. */
  readonly resets: number
  readonly requests: Readonly<LaneCounters>
  readonly replies: Readonly<LaneCounters>
}

/** Starts a proxy on a free port in front of a server on this machine. It passes everything. */
export async function startProxy(targetPort: number): Promise<FaultProxy> {
  const proxy = new TcpProxy(targetPort, await takePort(HOST))
  await proxy.pass()
  return proxy
}

interface Connection {
  readonly client: Socket
  readonly server: Socket
  readonly requests: Lane
  readonly replies: Lane
}

class TcpProxy implements FaultProxy {
  readonly port: number
  #targetPort: number
  readonly #requests = forwardingRule()
  readonly #replies = forwardingRule()
  readonly #connections = new Set<Connection>()
  #listener: Server | undefined
  #accepted = 0
  #resets = 0

  constructor(targetPort: number, port: number) {
    this.port = port
    this.#targetPort = targetPort
  }

  get url(): string {
    return `redis://${HOST}:${this.port}`
  }

  get counters(): ProxyCounters {
    return {
      connections: this.#accepted,
      open: this.#connections.size,
      resets: this.#resets,
      requests: { ...this.#requests.counters },
      replies: { ...this.#replies.counters },
    }
  }

  pass(): Promise<void> {
    this.delay({ requestsMs: 0, repliesMs: 0 })
    this.#requests.hold = false
    this.#replies.hold = false
    this.#requests.bytewise = false
    this.#replies.bytewise = false
    return this.#lose(false, false)
  }

  drop(): Promise<void> {
    return this.#lose(true, true)
  }

  dropRequests(): Promise<void> {
    return this.#lose(true, false)
  }

  dropReplies(): Promise<void> {
    return this.#lose(false, true)
  }

  async refuse(): Promise<void> {
    const listener = this.#listener
    this.#listener = undefined
    const closed = listener === undefined ? undefined : once(listener, 'close')
    listener?.close()
    this.reset()
    await closed
  }

  redirect(port: number): void {
    this.#targetPort = port
  }

  reset(): void {
    for (const connection of this.#connections) this.#reset(connection)
  }

  delay({ requestsMs, repliesMs }: Delays): void {
    if (requestsMs !== undefined) this.#requests.delayMs = asFunction(requestsMs)
    if (repliesMs !== undefined) this.#replies.delayMs = asFunction(repliesMs)
  }

  trickle(): void {
    this.#requests.bytewise = true
    this.#replies.bytewise = true
  }

  holdReplies(): Hold {
    return this.#hold(this.#replies, ({ replies }) => replies)
  }

  holdRequests(): Hold {
    return this.#hold(this.#requests, ({ requests }) => requests)
  }

  async close(): Promise<void> {
    await this.refuse()
    returnPort(this.port)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #lose(requests: boolean, replies: boolean): Promise<void> {
    const recovers = (this.#requests.lose && !requests) || (this.#replies.lose && !replies)
    this.#requests.lose = requests
    this.#replies.lose = replies
    for (const connection of this.#connections) {
      if (recovers && isBroken(connection)) this.#reset(connection)
      connection.requests.flush()
      connection.replies.flush()
    }
    await this.#listen()
  }

  #hold(rule: LaneRule, laneOf: (connection: Connection) => Lane): Hold {
    let onHeld = (): void => undefined
    const held = new Promise<void>((resolve) => {
      onHeld = resolve
    })
    const lanes = (act: (lane: Lane, connection: Connection) => void): void => {
      // A later hold has taken over, and only its owner may end it.
      if (rule.onHeld !== onHeld) return
      rule.hold = false
      for (const connection of this.#connections) act(laneOf(connection), connection)
    }
    rule.onHeld = onHeld
    rule.hold = true
    return {
      held,
      release: () => {
        lanes((lane) => {
          lane.flush()
        })
      },
      lose: () => {
        lanes((lane, connection) => {
          lane.discard()
          if (lane.broken) this.#reset(connection)
        })
      },
    }
  }

  async #listen(): Promise<void> {
    if (this.#listener !== undefined) return
    const listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      this.#accept(client)
    })
    this.#listener = listener
    listener.listen(this.port, HOST)
    await once(listener, 'listening')
  }

  #accept(client: Socket): void {
    const server = connect({
      host: HOST,
      port: this.#targetPort,
      allowHalfOpen: true,
      noDelay: true,
    })
    const connection: Connection = {
      client,
      server,
      requests: new Lane(client, server, this.#requests),
      replies: new Lane(server, client, this.#replies),
    }
    this.#accepted += 1
    this.#connections.add(connection)
    const forget = (): void => {
      if (client.closed && server.closed) this.#connections.delete(connection)
    }
    client.on('close', forget)
    server.on('close', forget)
  }

  #reset(connection: Connection): void {
    connection.requests.discard()
    connection.replies.discard()
    cut(connection.client)
    cut(connection.server)
    this.#resets += 1
  }
}

/** Node does not let go of a socket that is reset in the middle of its end or of its beginning. */
function cut(socket: Socket): void {
  if (socket.writableEnded || socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}

function isBroken({ requests, replies }: Connection): boolean {
  return requests.broken || replies.broken
}

function asFunction(ms: number | (() => number)): () => number {
  return typeof ms === 'number' ? () => ms : ms
}

/** For the cases of lock services. */
export function networkOf(proxies: () => readonly FaultProxy[]): TestNetwork {
  return {
    delayReplies: (repliesMs) => {
      for (const proxy of proxies()) proxy.delay({ repliesMs })
    },
    cut: async () => {
      await Promise.all(proxies().map((proxy) => proxy.drop()))
    },
    heal: async () => {
      await Promise.all(proxies().map((proxy) => proxy.pass()))
    },
  }
}
