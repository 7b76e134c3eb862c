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
import { CreateMode, Exception, type Stat } from 'node-zookeeper-client'
import pRetry from 'p-retry'
import { withinMs, type Clock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import type { Inspection } from '../../lock/inspection.ts'
import type { Claim, ClaimOutcome, Listening, LockDriver, Renewal, Wish } from '../lock-driver.ts'
import { heldInspection, type ListedLease, type ServiceHealth } from '../service-health.ts'
import { zooKeeperHealth } from './health.ts'
import { bucketOf, firstOf, guidOf, nodePrefix, resourceOf } from './places.ts'
import { Session, type SessionOptions } from './session.ts'

export interface ZooKeeperClaim extends Claim {
  readonly session: Session
  readonly paths: readonly string[]
}

interface NodeWaiter {
  readonly wake: () => void
  watching?: Set<NodeWaiter>
  /** The token of its latest attempt; undefined where it has left. */
  attempt?: string | undefined
  /** Its node between two attempts. */
  place?: KeptNodes | undefined
}

interface KeptNodes {
  readonly session: Session
  readonly paths: readonly string[]
}

/** Waiters by the node that each waits for. A reconnected library sets its watches again. */
type Watches = Map<string, Set<NodeWaiter>>

/** A predecessor may vanish while it is looked for. */
const MAX_PREDECESSOR_TRIES = 10
/** Each waits until the session is connected again. */
const REPEATS = { retries: 50, minTimeout: 10, maxTimeout: 500, randomize: true }

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
    await this.#current().connected()
  }

  async acquire(wish: Wish): Promise<ClaimOutcome<ZooKeeperClaim>> {
    const startedAt = this.#clock.now()
    const waiter = wish.waiter === undefined ? undefined : this.#waiters.get(wish.waiter)
    const session = this.#current()
    const place = waiter?.place?.session === session ? waiter.place : undefined
    if (waiter !== undefined) Object.assign(waiter, { attempt: wish.token, place: undefined })
    const paths = place?.paths ?? (await this.#create(session, wish))
    try {
      const predecessor = await this.#predecessor(session, wish, paths, waiter)
      if (predecessor === undefined) {
        if (place !== undefined) await this.#touch(session, paths)
        return await this.#granted(session, paths, startedAt)
      }
      const { resource, path } = predecessor
      const holder = await this.#ownerOf(session, path)
      // With several nodes it would hold what it waits for. A late attempt has a successor.
      // rule: waiter-keeps-one-place
      if (waiter?.attempt === wish.token && paths.length === 1) waiter.place = { session, paths }
      else await this.#remove(session, paths)
      return { status: 'taken', resource, holder, retryAfterMs: session.timeoutMs }
    } catch (error) {
      // Its places go, also those that an abandoned attempt of this waiter had.
      this.#remove(session, paths).catch(() => undefined)
      throw error
    }
  }

  async extend({ session, paths }: ZooKeeperClaim): Promise<Renewal> {
    const startedAt = this.#clock.now()
    if (session.isOver || session !== this.#session) return 'gone'
    try {
      await this.#touch(session, paths)
    } catch (error) {
      if (!isCode(error, Exception.NO_NODE, Exception.SESSION_EXPIRED)) throw error
      return 'gone'
    }
    return { ageMs: startedAt - session.countsFrom(startedAt) }
  }

  async release({ session, paths }: ZooKeeperClaim): Promise<void> {
    await this.#remove(session, paths)
  }

  /**
   * The names of the nodes are unknown: they are found by the part that the client chose. A server
   * to which the session has moved may not have them yet. It has them after a write.
   */
  async abandon(wish: Wish): Promise<void> {
    const session = this.#current()
    await persistently(session, async () => {
      // rule: abandon-writes-before-it-reads
      await this.#touch(
        session,
        wish.resources.map((resource) => this.#parent(resource)),
      ).catch(unless(Exception.NO_NODE))
      for (const resource of wish.resources) {
        const parent = this.#parent(resource)
        const names = await this.#children(session, parent)
        const mine = names.filter((name) => name.startsWith(nodePrefix(resource, wish.token)))
        await this.#remove(
          session,
          mine.map((name) => `${parent}/${name}`),
        )
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
        if (place !== undefined) this.#remove(place.session, place.paths).catch(() => undefined)
      },
    }
  }

  async inspect(resource: string): Promise<Inspection> {
    const session = this.#current()
    const first = firstOf(resource, await this.#children(session, this.#parent(resource)))
    const path = first && `${this.#parent(resource)}/${first.name}`
    const stat = path === undefined ? undefined : await this.#stat(session, path)
    if (path === undefined || stat === undefined) {
      return { resource, masters: [{ master: this.name }] }
    }
    const holder = await this.#ownerOf(session, path)
    // ZooKeeper does not tell how much of a session is left.
    const lease = { holder, fencingToken: tokenOf(stat), freeInMs: session.timeoutMs }
    return heldInspection(this.name, { resource, ...lease })
  }

  async leases(limit: number): Promise<readonly ListedLease[]> {
    const session = this.#current()
    const parents = await this.#children(session, this.#root)
    const nodes = await Promise.all(
      parents.map((bucket) => this.#children(session, `${this.#root}/${bucket}`)),
    )
    const resources = [...new Set(nodes.flat().flatMap((name) => resourceOf(name) ?? []))]
    const found = await Promise.all(
      resources.slice(0, limit).map(async (resource) => ({
        resource,
        holder: (await this.inspect(resource)).holder,
      })),
    )
    return found.flatMap(({ resource, holder }) => {
      if (holder === undefined) return [] // It has just left.
      const { name, fencingToken, freeInMs } = holder
      return [{ resource, holder: name, fencingToken, freeInMs }]
    })
  }

  health(): Promise<ServiceHealth> {
    const { servers, timeoutMs, clock } = this.#options
    return zooKeeperHealth(servers, async () => {
      const session = this.#current()
      const answered = withinMs(
        clock,
        timeoutMs,
        session.connected().then(() => true),
      )
      if ((await answered) === undefined) throw new Error(`no session within ${timeoutMs} ms`)
    })
  }

  close(): Promise<void> {
    this.#isClosed = true
    return this.#session.closed()
  }

  /**
   * What still goes on after the close must not open another session, which nothing would close.
   */
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
    const stat = await this.#stat(session, paths[0] ?? '')
    if (stat === undefined) throw new Error('the node was deleted by hand')
    const ageMs = startedAt - session.countsFrom(startedAt)
    const claim = { session, paths, fencingToken: tokenOf(stat), leaseMs: session.timeoutMs, ageMs }
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
    const paths = await create().catch(unless(Exception.NO_NODE))
    if (paths !== undefined) return paths
    for (const resource of wish.resources) {
      const made = session.ask('mkdirp', this.#parent(resource)).catch(unless(Exception.NO_NODE))
      if ((await made) !== undefined) continue
      throw new Error('the path at the end of `servers` does not exist. Create it.')
    }
    return create()
  }

  /** A transaction that changes nothing: a quorum commits it, unless a node is gone. */
  async #touch(session: Session, paths: readonly string[]): Promise<void> {
    await session.commit((transaction) => {
      for (const path of paths) transaction.check(path)
    })
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
      const names = await this.#children(session, parent)
      if (!names.includes(own)) throw new Error('the node was deleted by hand')
      const before = firstOf(resource, names, own)
      if (before !== undefined) return { resource, path: `${parent}/${before.name}` }
    }
    return undefined
  }

  async #children(session: Session, parent: string): Promise<readonly string[]> {
    const found = await session.ask('getChildren', parent).catch(unless(Exception.NO_NODE))
    return (found ?? []) as readonly string[]
  }

  async #stat(session: Session, path: string): Promise<Stat | undefined> {
    return ((await session.ask('exists', path)) ?? undefined) as Stat | undefined
  }

  async #ownerOf(session: Session, path: string): Promise<string> {
    try {
      const data = await session.ask('getData', path)
      return `${String(data)} (${guidOf(path).slice(0, 6)}…)`
    } catch {
      return 'a holder that has just left'
    }
  }

  async #remove(session: Session, paths: readonly string[]): Promise<void> {
    if (session.isOver) return // Its nodes went with it.
    await Promise.all(
      paths.map((path) =>
        persistently(session, async () => {
          await session.ask('remove', path).catch(unless(Exception.NO_NODE))
        }),
      ),
    )
  }

  #parent(resource: string): string {
    return `${this.#root}/${bucketOf(resource)}`
  }
}

/** A node that is left behind would block its line as long as the session lives. */
function persistently(session: Session, act: () => Promise<void>): Promise<void> {
  return pRetry(act, { ...REPEATS, shouldRetry: () => !session.isOver })
}

function isCode(error: unknown, ...codes: readonly number[]): boolean {
  return error instanceof Exception && codes.includes(error.getCode())
}

/** Passes over an error of this code. */
function unless(code: number): (error: unknown) => undefined {
  return (error) => {
    if (!isCode(error, code)) throw error
  }
}

/** The epoch of the leader and a counter: exact as a number in the first two million epochs. */
function tokenOf({ czxid }: Stat): number {
  const token = Number(czxid.readBigInt64BE())
  if (Number.isSafeInteger(token)) return token
  throw new Error('czxid is beyond 2^53: this ZooKeeper has had too many leaders for its tokens')
}
