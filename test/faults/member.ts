/**
 * One client: takes leases and writes under them as a careful application would, and
 * reports what it saw. Runs in a process of its own, so that it can be stopped and killed like one.
 */
import type { Lease, LockService } from '../../src/index.ts'
import { SeededRandom } from '../sim/seeded-random.ts'
import type { Ending, MemberEvent, PausePoint } from './history.ts'
import { leaseLogger } from './lease-logs.ts'
import { monotonicMs } from './monotonic.ts'
import { openService } from './open-service.ts'
import type { Orders } from './orders.ts'
import { FencedStore } from './store.ts'

/** The lease counts on `performance.now()`, which runs on the same clock from another origin. */
const ORIGIN_MS = monotonicMs() - performance.now()
/** Longer than anything the library may take, on a busy machine. */
const SETTLE_MS = 10_000

/** What `acquire` throws, as `tryAcquire` calls it. */
const STATUS_OF: Readonly<Record<string, string>> = {
  RESOURCE_TAKEN: 'taken',
  SPLIT_VOTE: 'split',
  QUORUM_UNREACHABLE: 'unreachable',
}

export class Member {
  readonly #orders: Orders
  readonly #report: (event: MemberEvent) => void
  readonly #redlock: LockService
  readonly #store: FencedStore
  readonly #stop = new AbortController()
  readonly #loops: readonly Promise<void>[]
  #leases = 0
  #paused = 0

  static async begin(orders: Orders, report: (event: MemberEvent) => void): Promise<Member> {
    const logger = leaseLogger(orders.leaseLogs)
    const service = await openService({
      ...orders,
      masters: orders.urls,
      owner: orders.name,
      logger,
    })
    return new Member(orders, report, service)
  }

  private constructor(orders: Orders, report: (event: MemberEvent) => void, redlock: LockService) {
    this.#orders = orders
    this.#report = report
    this.#store = new FencedStore(orders.storeUrl, orders.namespace)
    this.#redlock = redlock
    this.#loops = Array.from({ length: orders.loops }, (_, index) =>
      this.#loop(new SeededRandom(orders.seed * 1_000 + index)),
    )
  }

  /** Resolves when every turn is over and every connection closed. */
  async end(): Promise<void> {
    this.#stop.abort()
    await Promise.all(this.#loops)
    await this.#settles('close', this.#redlock.close())
    this.#store.close()
  }

  async #loop(random: SeededRandom): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#turn(random)
      } catch (error) {
        const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
        this.#report({ kind: 'problem', message })
      }
      await this.#sleep(random.between(0, 15))
    }
  }

  async #turn(random: SeededRandom): Promise<void> {
    const { resources, holdMs } = this.#orders
    const resource = resources[random.integer(0, resources.length - 1)] ?? 'r'
    this.#pause('before-acquire')
    const attemptAt = monotonicMs()
    const acquiring = this.#acquire(resource, random)
    this.#pause('in-acquire')
    const lease = await acquiring
    if (lease === undefined) return
    this.#pause('after-grant')
    const name = `${this.#orders.name}/${++this.#leases}`
    const { fencingToken } = lease
    this.#report({
      kind: 'granted',
      lease: name,
      resource,
      fencingToken,
      attemptAt,
      at: monotonicMs(),
      trustedUntil: ORIGIN_MS + lease.trustedUntil,
    })
    lease.signal.addEventListener('abort', () => {
      this.#report({ kind: 'ended', lease: name, at: monotonicMs(), how: ending(lease) })
    })
    const steps = random.integer(1, 3)
    for (let step = 1; step <= steps && this.#mayGoOn(lease); step++) {
      await this.#write(name, lease, `${name}#${step}`, random)
      if (random.chance(0.4) || this.#armed?.endsWith('extend') === true) {
        await this.#extend(name, lease)
      }
      await this.#sleep(random.between(0, holdMs))
    }
    // Some holders die without a word; their lease has to run out by itself.
    if (random.chance(0.05)) await lapse(lease)
    await this.#release(name, lease)
  }

  /** One in three asks once; the others wait for their turn. */
  async #acquire(resource: string, random: SeededRandom): Promise<Lease | undefined> {
    const { leaseMs } = this.#orders
    const autoExtend = random.chance(0.2)
    if (random.chance(0.33)) {
      const once = this.#redlock.tryAcquire(resource, { autoExtend })
      const outcome = await this.#settles('tryAcquire', once)
      if (outcome.status === 'granted') return outcome.lease
      this.#report({ kind: 'refused', status: outcome.status })
      return undefined
    }
    const { signal } = this.#stop
    const waiting = this.#redlock.acquire(resource, { autoExtend, waitMs: 2 * leaseMs, signal })
    try {
      return await this.#settles('acquire', waiting)
    } catch (error) {
      if (signal.aborted) return undefined
      if (!(error instanceof Error && 'code' in error)) throw error
      this.#report({ kind: 'refused', status: STATUS_OF[String(error.code)] ?? String(error.code) })
      return undefined
    }
  }

  async #write(name: string, lease: Lease, entry: string, random: SeededRandom): Promise<void> {
    const { resource, fencingToken } = lease
    const seen = await this.#store.last(resource)
    await this.#sleep(random.between(0, 8))
    if (!this.#mayGoOn(lease)) return
    this.#pause('before-write')
    const writing = this.#store.append(resource, { entry, seen, fencingToken })
    this.#pause('in-write')
    const accepted = await writing
    const trusted = lease.remainingMs() > 0
    this.#report({ kind: 'wrote', lease: name, resource, entry, accepted, trusted })
  }

  async #extend(name: string, lease: Lease): Promise<void> {
    if (lease.remainingMs() <= 0) return
    this.#pause('before-extend')
    const extending = lease.extend()
    this.#pause('in-extend')
    try {
      await this.#settles('extend', extending)
      const trustedUntil = ORIGIN_MS + lease.trustedUntil
      this.#report({ kind: 'extended', lease: name, trustedUntil })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'LEASE_LOST')) throw error
    }
  }

  async #release(name: string, lease: Lease): Promise<void> {
    this.#pause('before-release')
    // Renewals by the keeper count too; after the release nobody trusts anything.
    const trustedUntil = ORIGIN_MS + lease.trustedUntil
    this.#report({ kind: 'extended', lease: name, trustedUntil })
    const at = monotonicMs()
    const held = lease.remainingMs() > 0
    // Before the release leaves: a holder that is killed now must not seem to hold on.
    if (held) this.#report({ kind: 'ended', lease: name, at, how: 'released' })
    const releasing = lease.release()
    this.#pause('in-release')
    await this.#settles('release', releasing)
  }

  #mayGoOn(lease: Lease): boolean {
    return this.#orders.stubborn === true || lease.remainingMs() > 0
  }

  /** Where this member pauses next, if it is told to pause at all. */
  get #armed(): PausePoint | undefined {
    const { pauses } = this.#orders
    return pauses?.points[this.#paused % pauses.points.length]
  }

  #pause(point: PausePoint): void {
    const { pauses } = this.#orders
    if (pauses === undefined || point !== this.#armed || this.#stop.signal.aborted) return
    this.#paused++
    this.#report({ kind: 'paused', point })
    if (pauses.how === 'stop') process.kill(process.pid, 'SIGSTOP')
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauses.ms)
  }

  /** Passes on what it comes to, and reports a promise that comes to nothing. */
  async #settles<Result>(what: string, promise: Promise<Result>): Promise<Result> {
    // A process that was stopped finds its timer due before its replies are read: look twice.
    let timer = setTimeout(() => {
      timer = setTimeout(() => {
        this.#report({ kind: 'unsettled', what })
      }, 1_000)
    }, SETTLE_MS)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms))
  }
}

function ending(lease: Lease): Ending {
  const reason = lease.signal.reason as { readonly message?: string } | undefined
  return reason?.message?.includes('not extended') === true ? 'lapsed' : 'lost'
}

/** Lets the lease run out; one that is kept alive is not waited for. */
async function lapse(lease: Lease): Promise<void> {
  const until = performance.now() + 2 * lease.leaseMs
  while (lease.remainingMs() > 0 && performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, lease.leaseMs / 10))
  }
}
