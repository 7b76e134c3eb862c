/**
 * Leases on ephemeral nodes of ZooKeeper. A claim is one sequence node a resource, all made in one
 * transaction; the node with the smallest number holds the resource, and each waiter watches only
 * the node before its own. Nodes stand in a fixed number of parents, so none is left behind.
 *
 * The fencing token is the `czxid` of the node: it increases over all nodes and all time. The
 * number in a node's name starts again when its parent is made anew, and wraps after 2^31.
 *
 * A lease lasts as long as the session that all leases of one process share.
 */
import { CreateMode, Exception } from 'node-zookeeper-client'
import { mustAnswer, type Clock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import type { Inspection } from '../../lock/inspection.ts'
import type { Claim, ClaimOutcome, Listening, LockDriver, Renewal, Wish } from '../lock-driver.ts'
import { inspectionOf, healthOf, type ListedLease, type ServiceHealth } from '../service-health.ts'
import { healthOfServer } from './health.ts'
import * as nodes from './nodes.ts'
import { bucketOf, firstOf, nodePrefix, resourceOf } from './nodes.ts'
import { Session, type SessionOptions } from './session.ts'

interface KeptNodes {
  readonly session: Session
  readonly paths: readonly string[]
}

export type ZooKeeperClaim = Claim & KeptNodes

interface NodeWaiter {
  readonly wake: () => void
  watching?: Set<NodeWaiter>
  /** The token of its latest attempt; undefined where it has left. */
  attempt?: string | undefined
  /** Its node between two attempts. */
  place?: KeptNodes | undefined
}

/** Waiters by the node that each waits for. A reconnected library sets its watches again. */
type Watches = Map<string, Set<NodeWaiter>>

/** A predecessor may vanish while it is looked for. */
const MAX_PREDECESSOR_TRIES = 10

export class ZooKeeperDriver implements LockDriver<ZooKeeperClaim> {
  readonly name = 'ZooKeeper'
  readonly #options: SessionOptions
  readonly #root: string
  readonly #clock: Clock
  readonly #waiters = new Map<string, NodeWaiter>()
  readonly #watches = new WeakMap<Session, Watches>()
  #session: Session
  #isClosed = false

  constructor(options: SessionOptions, namespace: string) {
    this.#options = options
    this.#clock = options.clock
    // A node cannot be called `.` or `..`.
    this.#root = `/${encodeURIComponent(namespace).replace(/^\.{1,2}$/, '%2E$&')}`
    this.#session = new Session(options)
  }

  async ready(): Promise<void> {
    await this.#current().ready()
  }

  async acquire(wish: Wish): Promise<ClaimOutcome<ZooKeeperClaim>> {
    const startedAt = this.#clock.now()
    const waiter = wish.waiter === undefined ? undefined : this.#waiters.get(wish.waiter)
    const session = this.#current()
    await session.ready()
    const place = waiter?.place?.session === session ? waiter.place : undefined
    if (waiter !== undefined) Object.assign(waiter, { attempt: wish.token, place: undefined })
    const paths = place?.paths ?? (await this.#create(session, wish))
    try {
      const predecessor = await this.#predecessor(session, wish, paths, waiter)
      if (predecessor === undefined) {
        if (place !== undefined) await nodes.touch(session, paths)
        return await this.#granted(session, paths, startedAt)
      }
      const { resource, path } = predecessor
      const holder = await nodes.ownerOf(session, path)
      // With several nodes it would hold what it waits for. A late attempt has a successor.
      // rule: waiter-keeps-one-place
      if (waiter?.attempt === wish.token && paths.length === 1) waiter.place = { session, paths }
      else await nodes.remove(session, paths)
      return { status: 'taken', resource, holder, retryAfterMs: session.timeoutMs }
    } catch (error) {
      // Its places go, also those that an abandoned attempt of this waiter had.
      nodes.remove(session, paths).catch(() => undefined)
      throw error
    }
  }

  async extend({ session, paths }: ZooKeeperClaim): Promise<Renewal> {
    const startedAt = this.#clock.now()
    if (session.isOver || session !== this.#session) return 'gone'
    try {
      await nodes.touch(session, paths)
    } catch (error) {
      if (!nodes.isCode(error, Exception.NO_NODE, Exception.SESSION_EXPIRED)) throw error
      return 'gone'
    }
    return { ageMs: startedAt - session.countsFrom(startedAt) }
  }

  async release({ session, paths }: ZooKeeperClaim): Promise<void> {
    await nodes.remove(session, paths)
  }

  /**
   * The names of the nodes are unknown: they are found by the part that the client chose. A server
   * to which the session has moved may not have them yet. It has them after a write.
   */
  async abandon(wish: Wish): Promise<void> {
    const session = this.#current()
    const parents = wish.resources.map((resource) => this.#parent(resource))
    await nodes.persistently(session, async () => {
      // rule: abandon-writes-before-it-reads
      await nodes.touch(session, parents).catch(nodes.unless(Exception.NO_NODE))
      for (const resource of wish.resources) {
        const parent = this.#parent(resource)
        const names = await nodes.childrenOf(session, parent)
        const mine = names.filter((name) => name.startsWith(nodePrefix(resource, wish.token)))
        const paths = mine.map((name) => `${parent}/${name}`)
        await nodes.remove(session, paths)
      }
    })
  }

  listen(_resources: readonly string[], id: string, wake: () => void): Listening {
    const waiter: NodeWaiter = { wake }
    this.#waiters.set(id, waiter)
    return {
      stop: () => {
        this.#waiters.delete(id)
        const { place, watching } = waiter
        // What is still on its way keeps no place either.
        Object.assign(waiter, { attempt: undefined, place: undefined })
        watching?.delete(waiter)
        if (place !== undefined) nodes.remove(place.session, place.paths).catch(() => undefined)
      },
    }
  }

  async inspect(resource: string): Promise<Inspection> {
    return inspectionOf(this.name, resource, await this.#lease(resource))
  }

  async leases(limit: number): Promise<readonly ListedLease[]> {
    const session = this.#current()
    const parents = await nodes.childrenOf(session, this.#root)
    const names = await Promise.all(
      parents.map((bucket) => nodes.childrenOf(session, `${this.#root}/${bucket}`)),
    )
    const resources = [...new Set(names.flat().flatMap((name) => resourceOf(name) ?? []))]
    const shown = resources.slice(0, limit)
    const found = await Promise.all(shown.map((resource) => this.#lease(resource)))
    return found.filter((lease) => lease !== undefined)
  }

  health(): Promise<ServiceHealth> {
    const { servers, timeoutMs, clock } = this.#options
    const addresses = servers.replace(/\/.*$/, '').split(',')
    const asks = addresses.map((server) => [server, () => healthOfServer(server)] as const)
    return healthOf(this.name, new Map(asks), async () => {
      const late = `no session within ${timeoutMs} ms`
      await mustAnswer(clock, timeoutMs, this.#current().connected, late)
    })
  }

  close(): Promise<void> {
    this.#isClosed = true
    return this.#session.closed()
  }

  /** Undefined where none is held, or its holder has just left. */
  async #lease(resource: string): Promise<ListedLease | undefined> {
    const session = this.#current()
    const parent = this.#parent(resource)
    const first = firstOf(resource, await nodes.childrenOf(session, parent))
    if (first === undefined) return undefined
    const path = `${parent}/${first.name}`
    const stat = await nodes.statOf(session, path)
    if (stat === undefined) return undefined
    const holder = await nodes.ownerOf(session, path)
    // ZooKeeper does not tell how much of a session is left.
    return { resource, holder, fencingToken: nodes.tokenOf(stat), freeInMs: session.timeoutMs }
  }

  /** What still goes on after the close must not open a session, which nothing would close. */
  #current(): Session {
    if (this.#isClosed) throw new Error('the connection to ZooKeeper was closed')
    if (this.#session.isOver) this.#session = new Session(this.#options)
    return this.#session
  }

  async #granted(
    session: Session,
    paths: readonly string[],
    startedAt: number,
  ): Promise<ClaimOutcome<ZooKeeperClaim>> {
    const stat = await nodes.statOf(session, paths[0] ?? '')
    if (stat === undefined) throw new Error('the node was deleted by hand')
    const ageMs = startedAt - session.countsFrom(startedAt)
    const claim = {
      session,
      paths,
      fencingToken: nodes.tokenOf(stat),
      leaseMs: session.timeoutMs,
      ageMs,
    }
    return { status: 'granted', claim }
  }

  /** All nodes in one transaction, which a quorum commits. */
  async #create(session: Session, wish: Wish): Promise<readonly string[]> {
    const data = Buffer.from(wish.token.slice(wish.token.indexOf('@') + 1))
    const create = async (): Promise<readonly string[]> => {
      const made = await session.commit((transaction) => {
        for (const resource of wish.resources) {
          const path = `${this.#parent(resource)}/${nodePrefix(resource, wish.token)}`
          transaction.create(path, data, CreateMode.EPHEMERAL_SEQUENTIAL)
        }
      })
      return (made as readonly { readonly path?: string }[]).map(({ path = '' }) => path)
    }
    const paths = await create().catch(nodes.unless(Exception.NO_NODE))
    if (paths !== undefined) return paths
    for (const resource of wish.resources) {
      const made = session
        .ask('mkdirp', this.#parent(resource))
        .catch(nodes.unless(Exception.NO_NODE))
      if ((await made) !== undefined) continue
      throw new Error('the path at the end of `servers` does not exist. Create it.')
    }
    return create()
  }

  /** The node to wait for; undefined where all of ours are first. A waiter watches it. */
  async #predecessor(
    session: Session,
    { resources }: Wish,
    paths: readonly string[],
    waiter: NodeWaiter | undefined,
  ): Promise<{ readonly resource: string; readonly path: string } | undefined> {
    for (let tries = 0; tries < MAX_PREDECESSOR_TRIES; tries++) {
      const found = await this.#before(session, resources, paths)
      if (found === undefined || waiter === undefined) return found
      if (await this.#watch(session, found.path, waiter)) return found
    }
    throw new Error('the nodes ahead of ours change too often; try again')
  }

  /** One watch a node, however many waiters come and go. Returns whether the node is there. */
  async #watch(session: Session, path: string, waiter: NodeWaiter): Promise<boolean> {
    const watches = getOrInsert(this.#watches, session, (): Watches => new Map())
    waiter.watching?.delete(waiter)
    const others = watches.get(path)
    const waiters = others ?? new Set()
    waiter.watching = waiters.add(waiter)
    if (others !== undefined) return true
    watches.set(path, waiters)
    const changed = (): void => {
      watches.delete(path)
      for (const { wake } of waiters) wake()
    }
    try {
      const stat = await session.ask('exists', path, changed)
      if (stat === null) changed()
      return stat !== null
    } catch (error) {
      changed()
      throw error
    }
  }

  async #before(
    session: Session,
    resources: readonly string[],
    paths: readonly string[],
  ): Promise<{ readonly resource: string; readonly path: string } | undefined> {
    for (const [index, resource] of resources.entries()) {
      const parent = this.#parent(resource)
      const own = (paths[index] ?? '').slice(parent.length + 1)
      const names = await nodes.childrenOf(session, parent)
      if (!names.includes(own)) throw new Error('the node was deleted by hand')
      const before = firstOf(resource, names, own)
      if (before !== undefined) return { resource, path: `${parent}/${before.name}` }
    }
    return undefined
  }

  #parent(resource: string): string {
    return `${this.#root}/${bucketOf(resource)}`
  }
}
