/**
 * The queue's Redis: one server, or a cluster of which one node is named. A question goes to the
 * node that has the keys, because a node says where they are.
 */
import type { Cluster, RedisOptions } from 'ioredis'
import { getOrInsert } from '../../get-or-insert.ts'
import { messageOf } from '../../message-of.ts'
import type { MasterAddress } from '../../redlock/wire/connection-settings.ts'
import { ioredis } from '../../ioredis.ts'
import { isErrorReply } from '../../redlock/wire/master.ts'
import { answerOf, type ServerAnswer } from './fleet-probe.ts'
import { refuses } from '../../worker/run/failure.ts'
import { Probe, type ServerSurvey } from './probe.ts'

/** SlotRange move seldom, and one at a time. */
const MAX_REDIRECTS = 3
const MOVED = /^MOVED \d+ (.*):(\d+)$/
/** Of keys that move to another node now, some or all. */
const MOVES = /^(?:ASK|TRYAGAIN) /
const MOVING = 'a slot of the cluster moves to another node: ask again when it has moved'
/** What a server answers to every question. */
const ANSWERS_NOTHING = /^(?:LOADING|CLUSTERDOWN) /

interface Node {
  readonly address: MasterAddress
  readonly probe: Probe
}

type SlotRange = readonly [from: number, to: number, master: readonly [host: string | null, number]]

/**
 * The answers that came: a node that is away hides nothing of the others.
 * @throws Error where none came.
 */
export async function known<Answer>(asked: readonly Promise<Answer>[]): Promise<readonly Answer[]> {
  const all = await Promise.allSettled(asked)
  const answers = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const [first] = all
  if (answers.length === 0 && first?.status === 'rejected') throw first.reason
  return answers
}

export class QueueServer {
  /** `host:port`. */
  readonly name: string
  readonly #timeoutMs: number
  readonly #named: Node
  /** The others, by `host:port`. */
  readonly #nodes = new Map<string, Node>()
  /** Who answered last. All keys of a queue are on one node. */
  #last: Node

  /** @param timeoutMs how long a node may take to connect, and to answer one question. */
  constructor(address: MasterAddress, timeoutMs: number) {
    this.#timeoutMs = timeoutMs
    this.#named = this.#last = { address, probe: new Probe(address, timeoutMs) }
    this.name = this.#named.probe.name
  }

  async surveys(): Promise<readonly ServerAnswer<ServerSurvey>[]> {
    const nodes = await answerOf(this, () => this.#withKeys())
    if (!nodes.ok) return [nodes]
    return Promise.all(nodes.value.map(({ probe }) => answerOf(probe, () => probe.survey())))
  }

  /** Who has a key. @throws Error when it does not answer. */
  addressOf(key: string): Promise<MasterAddress> {
    return this.#ask(async ({ address, probe }) => {
      await probe.command('EXISTS', key)
      return address
    })
  }

  command(...given: Parameters<Probe['command']>): Promise<unknown> {
    return this.#ask(({ probe }) => probe.command(...given))
  }

  run(...given: Parameters<Probe['run']>): Promise<unknown> {
    return this.#ask(({ probe }) => probe.run(...given))
  }

  /**
   * As {@link Probe.scan}, on every node that has keys.
   * @returns why keys may be missing; undefined where none are.
   * @throws Error where no node answers.
   */
  async scan(...given: Parameters<Probe['scan']>): Promise<Error | undefined> {
    const nodes = await this.#withKeys()
    let missing: Error | undefined
    const scans = nodes.map(async (node) => {
      try {
        const isWhole = await node.probe.scan(...given)
        if (!isWhole) missing ??= new Error(`${node.probe.name} has more keys than are looked at`)
      } catch (error) {
        missing = this.#fault(node, error)
        throw missing
      }
    })
    await known(scans)
    return missing
  }

  /** False also where it does not answer. */
  async isCluster(): Promise<boolean> {
    return (await this.#slots().catch(() => [])).length > 0
  }

  /** Why a question has no answer: a node that refuses every question is not silent. */
  whyUnanswered(error: unknown): string {
    const said = messageOf(error)
    const fault = / answers: /.test(said) ? 'cannot be used' : 'does not answer'
    return `the queue's Redis ${this.name} ${fault}: ${said}`
  }

  close(): void {
    for (const { probe } of [this.#named, ...this.#nodes.values()]) probe.close()
  }

  async #withKeys(): Promise<readonly Node[]> {
    const slots = await this.#slots()
    const nodes = new Set(slots.map(([, , [host, port]]) => this.#at(host, port)))
    return nodes.size === 0 ? [this.#named] : [...nodes]
  }

  async #slots(): Promise<readonly SlotRange[]> {
    // A server that is no cluster refuses the question.
    const asked = this.#named.probe.command('CLUSTER', 'SLOTS')
    const slots = await asked.catch((error: unknown) => {
      if (!isErrorReply(error)) throw error
      return []
    })
    return slots as readonly SlotRange[]
  }

  async #ask<Reply>(question: (node: Node) => Promise<Reply>): Promise<Reply> {
    let node = this.#last
    for (let redirects = 0; ; redirects++) {
      try {
        const reply = await question(node)
        this.#last = node
        return reply
      } catch (error) {
        const [, host, port] = MOVED.exec(messageOf(error)) ?? []
        // Who answered another question may not have these keys, and be away.
        const isGuess = redirects === 0 && node !== this.#named && !isErrorReply(error)
        this.#last = this.#named
        if (isGuess) node = this.#named
        else if (port === undefined || redirects === MAX_REDIRECTS) throw this.#fault(node, error)
        else node = this.#at(host, Number(port))
      }
    }
  }

  /** The error names a node that is away, unless it is the one that was named. */
  #fault({ probe }: Node, error: unknown): Error {
    const said = messageOf(error)
    if (MOVES.test(said)) return new Error(MOVING)
    if (ANSWERS_NOTHING.test(said)) return new Error(`${probe.name} answers: ${said}`)
    if (error instanceof Error && (probe.name === this.name || isErrorReply(error))) return error
    return new Error(`node ${probe.name} of the cluster does not answer: ${said}`)
  }

  /** A node that does not know its own host is where it was asked. */
  #at(host: string | null | undefined, port: number): Node {
    const known = host || this.name.replace(/:\d+$/, '')
    return getOrInsert(this.#nodes, `${known}:${port}`, () => {
      const address = placedAt(this.#named.address, known, port)
      return { address, probe: new Probe(address, this.#timeoutMs) }
    })
  }
}

function placedAt(address: MasterAddress, host: string, port: number): MasterAddress {
  if (typeof address !== 'string') return { ...address, host, port }
  const url = new URL(address)
  url.hostname = host.includes(':') ? `[${host}]` : host
  url.port = String(port)
  return url.href
}

/**
 * Whether a job of the queue that has the key could start: a server refuses a script that may write
 * where it refuses writes. Nothing is written. @throws Error with why not.
 */
export async function takesWrites(server: QueueServer, key: string): Promise<void> {
  try {
    await server.command('EVAL', '#!lua\nreturn 1', 1, key)
  } catch (error) {
    const said = messageOf(error)
    if (said.startsWith('OOM'))
      throw new Error('OOM it is full and refuses writes', { cause: error })
    // What else it answers is no refusal: before Redis 7 it does not know the first line.
    if (said !== MOVING && (!isErrorReply(error) || refuses(error))) throw error
  }
}

/** A client of all nodes. Undefined for one server, and for one that does not answer. */
export async function clusterAt(
  address: MasterAddress,
  server: QueueServer,
): Promise<Cluster | undefined> {
  if (!(await server.isCluster())) return undefined
  const { Cluster } = ioredis()
  const options = typeof address === 'string' ? optionsOf(new URL(address)) : address
  const { host = '127.0.0.1', port = 6379, username, password, tls } = options
  const cluster = new Cluster([{ host, port }], {
    redisOptions: {
      maxRetriesPerRequest: null,
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(tls !== undefined && { tls }),
    },
  })
  cluster.on('error', () => undefined) // Workers tell of it.
  return cluster
}

/** A cluster's client takes a login for all nodes as options only. */
function optionsOf({ protocol, hostname, port, username, password }: URL): RedisOptions {
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: {} }),
  }
}
