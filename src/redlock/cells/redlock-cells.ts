/**
 * Several fleets of lock masters, called cells: each resource lives in one of them, so that lock
 * throughput grows with their number, and the loss of a whole cell is the loss of its resources
 * only.
 *
 * Where a resource lives follows from its name and the names of the cells (`placement.ts`). Workers
 * that disagree about the cells would trust one resource in two of them, so cells change in three
 * steps, each deployed everywhere before the next one begins:
 *
 *   1  activeCells a, b                              a resource in its old cell
 *   2  activeCells a, b, c   previousCells a, b      in both, if it moves
 *   3  activeCells a, b, c                           in its new cell
 *
 * Workers of neighbouring steps meet in a cell, whatever the resource. In step 2 both cells come to
 * the same fencing token, so that tokens increase across the move. Workers of step 1 and step 3
 * must not meet; nothing here notices when they do.
 */
import { systemClock, type Clock } from '../../clock.ts'
import { QuorumUnreachableError } from '../../errors.ts'
import { childLogger, defaultLogger } from '../../logger.ts'
import { integerOption, knownOptions, nameOption, objectOption, refuse } from '../../options.ts'
import type { MasterAddress } from '../wire/connection-settings.ts'
import type { Inspection } from '../../lock/inspection.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LeaseOptions, LockService } from '../../lock/lock-service.ts'
import { MovingLease } from './moving-lease.ts'
import type { AcquireOutcome, Split } from '../../lock/outcome.ts'
import { cellOf, placementKey } from './placement.ts'
import { QuorumLease } from '../quorum-lease.ts'
import { HeldLeases } from '../../lock/reentrancy.ts'
import { labelOf, resourceNames } from '../../lock/resources.ts'
import type { Listening } from '../waiting/announcements.ts'
import { acquireWithin } from '../waiting/retrying.ts'
import { callOptions, type AcquireOptions } from '../../lock/acquire-options.ts'
import { Redlock, type RedlockStatus } from '../redlock.ts'
import { REDLOCK_OPTIONS, type RedlockOptions } from '../settings.ts'
import { claimsFor, tryEach } from '../../lock/slots.ts'

/** Those of `Redlock`, with the masters of each cell. */
export interface RedlockCellsOptions extends Omit<RedlockOptions, 'masters'> {
  /**
   * The masters of each cell, by its name. A name stays with its masters for good: resources are
   * placed by it.
   */
  readonly cells: Readonly<Record<string, readonly MasterAddress[]>>
  /** Names of the cells that resources live in. @defaultValue all of `cells` */
  readonly activeCells?: readonly string[]
  /** While cells change: those that resources lived in before. @defaultValue none: nothing moves */
  readonly previousCells?: readonly string[]
}

const { masters: _, ...OF_A_FLEET } = REDLOCK_OPTIONS
const KNOWN: Readonly<Record<keyof RedlockCellsOptions, boolean>> = {
  ...OF_A_FLEET,
  ...{ cells: true, activeCells: true, previousCells: true },
}

/** Where a resource lives; `from` while it moves. */
interface Place {
  readonly from: Redlock | undefined
  readonly to: Redlock
}

/**
 * Several fleets of masters behind one lock service. Each resource lives in one of them.
 * @example
 * ```ts
 * const cells = new RedlockCells({
 *   cells: { a: ['redis://a-1:6379'], b: ['redis://b-1:6379'] },
 * })
 * await cells.using('customer:42', {}, ({ fencingToken }) => charge(order, { fencingToken }))
 * console.log(cells.cellOf('customer:42')) // a or b
 * ```
 */
export class RedlockCells implements LockService, AsyncDisposable {
  /** The fleet of each cell, for `status()`, `bootstrap()` and `ready()` of it alone. */
  readonly cells: ReadonlyMap<string, Redlock>
  readonly #clock: Clock
  readonly #activeCells: readonly string[]
  readonly #previousCells: readonly string[] | undefined
  readonly #held = new HeldLeases()

  /**
   * @throws TypeError for a bad option, naming it. Connects in the background: see
   * {@link RedlockCells.ready}.
   */
  constructor(given: RedlockCellsOptions) {
    objectOption(given, 'an object with `cells`')
    knownOptions(given, KNOWN)
    const { cells, activeCells, previousCells, ...options } = given
    if (typeof cells !== 'object' || Object.keys(cells).length === 0) {
      refuse('cells', 'an object with the masters of at least one cell, by its name', cells)
    }
    const names = Object.keys(cells).map((name) => nameOption('cells', name))
    this.#activeCells = cellsOption('activeCells', activeCells ?? names, names)
    this.#previousCells = previousCells && cellsOption('previousCells', previousCells, names)
    this.#clock = options.clock ?? systemClock
    const logger = options.logger ?? defaultLogger()
    this.cells = new Map(
      Object.entries(cells).map(([cell, masters]) => [
        cell,
        new Redlock({ ...options, masters, logger: childLogger(logger, { cell }) }),
      ]),
    )
  }

  get namespace(): string {
    return this.#anyCell.namespace
  }

  get leaseMs(): number {
    return this.#anyCell.leaseMs
  }

  get maxLeaseMs(): number {
    return this.#anyCell.maxLeaseMs
  }

  /**
   * Resolves when every cell has been tried and at least one has a quorum; resources of the others
   * are unreachable meanwhile.
   * @throws what {@link Redlock.ready} throws when a cell is set up wrongly, or none has a quorum.
   */
  async ready(): Promise<ReadonlyMap<string, RedlockStatus>> {
    const tried = await Promise.allSettled([...this.cells.values()].map((cell) => cell.ready()))
    const errors = tried.flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []))
    const wrong = errors.find((error) => !(error instanceof QuorumUnreachableError))
    if (wrong !== undefined) throw wrong
    if (errors.length === tried.length && errors[0] !== undefined) throw errors[0]
    return this.status()
  }

  /** The state of each cell, by its name. */
  status(): ReadonlyMap<string, RedlockStatus> {
    return new Map([...this.cells].map(([name, cell]) => [name, cell.status()]))
  }

  /** The name of the cell in which a resource lives, or will when it has moved. */
  cellOf(resource: string): string {
    return cellOf(resource, this.#activeCells)
  }

  /**
   * As {@link Redlock.tryAcquire}. Several resources must live together: their names share what
   * stands in the first `{…}`.
   * @throws TypeError for a bad resource or option; RedlockClosedError.
   */
  async tryAcquire(
    resource: string | readonly string[],
    options: LeaseOptions = {},
  ): Promise<AcquireOutcome> {
    callOptions(options, false)
    const names = resourceNames(resource)
    const { from, to } = this.#placeOf(names)
    if (from === undefined) return to.tryAcquire(names, options)
    const { slots = 1, ...one } = options
    // First where it was, then where it goes: all clients ask in this order, so no two wait for
    // each other.
    return tryEach(claimsFor(names, slots, this.#clock.random()), async (claim) =>
      join(claim, await from.tryAcquire(claim, one), () => to.tryAcquire(claim, one)),
    )
  }

  /**
   * As {@link Redlock.acquire}. While a resource moves, its release is not announced: waiting takes
   * random steps.
   */
  async acquire(
    resource: string | readonly string[],
    options: AcquireOptions = {},
  ): Promise<Lease> {
    callOptions(options, true)
    const { from, to } = this.#placeOf(resourceNames(resource))
    if (from === undefined) return to.acquire(resource, options)
    const { waitMs = options.leaseMs ?? this.leaseMs, signal, ...one } = options
    integerOption('waitMs', waitMs, 0, Number.MAX_SAFE_INTEGER)
    signal?.throwIfAborted()
    const startedAt = this.#clock.now()
    return acquireWithin({
      ...{ clock: this.#clock, startedAt, waitMs, signal },
      first: await this.tryAcquire(resource, one),
      attempt: () => this.tryAcquire(resource, one),
      roundTripMs: () => 1,
      listen: () => NOTHING_IS_HEARD,
      stopped: () => undefined,
    })
  }

  /** As {@link Redlock.using}. */
  async using<Result>(
    resource: string | readonly string[],
    options: AcquireOptions,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result> {
    return this.#held.using(this, resource, options, routine)
  }

  /** As {@link Redlock.handOver}. */
  async handOver(lease: Lease, options: Omit<LeaseOptions, 'slots'> = {}): Promise<AcquireOutcome> {
    const cells = [...this.cells.values()]
    const handOver = async (part: Lease): Promise<AcquireOutcome> => {
      const cell = cells.find((one) => one.holds(part))
      if (cell === undefined) part.assertHeld() // The reason why no cell holds it.
      return (cell ?? this.#anyCell).handOver(part, options)
    }
    if (!(lease instanceof MovingLease)) return handOver(lease)
    const [from, to] = lease.parts
    let isDone = false
    try {
      const outcome = await join(lease.resources, await handOver(from), () => handOver(to))
      isDone = outcome.status === 'granted'
      return outcome
    } catch (error) {
      isDone = error instanceof TypeError // A bad option is found before anything is ended.
      throw error
    } finally {
      if (!isDone) await lease.release()
    }
  }

  /**
   * Who holds a resource, and what the masters of its cell say about it. While it moves, those of
   * the cell in which it is held.
   */
  async inspect(resource: string): Promise<Inspection> {
    const { from, to } = this.#placeOf(resourceNames(resource))
    const seen = await to.inspect(resource)
    return from === undefined || seen.holder !== undefined ? seen : from.inspect(resource)
  }

  /** An attempt that tells whether any cell has a quorum. */
  async probe(resource: string): Promise<AcquireOutcome> {
    let outcome: AcquireOutcome = await this.#anyCell.tryAcquire(resource)
    for (const cell of this.cells.values()) {
      if (outcome.status !== 'unreachable') break
      outcome = await cell.tryAcquire(resource)
    }
    return outcome
  }

  /** Closes all cells; see {@link Redlock.close}. */
  async close(): Promise<void> {
    await Promise.all([...this.cells.values()].map((cell) => cell.close()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  get #anyCell(): Redlock {
    const [cell] = this.cells.values()
    return cell ?? refuse('cells', 'at least one cell', this.cells)
  }

  #placeOf(names: readonly string[]): Place {
    const [name = ''] = names
    if (names.some((other) => placementKey(other) !== placementKey(name))) {
      const how =
        "resources that live together (a common part in braces, as in '{customer:7}:cart')"
      refuse('resource', how, names.join(' + '))
    }
    const to = this.#cell(cellOf(name, this.#activeCells))
    const former = this.#previousCells
    const from = former === undefined ? to : this.#cell(cellOf(name, former))
    return { from: from === to ? undefined : from, to }
  }

  #cell(name: string): Redlock {
    return this.cells.get(name) ?? refuse('cells', `to have the cell \`${name}\``, this.cells)
  }
}

/** A lease in both cells under one token, or none in either. */
async function join(
  resources: readonly string[],
  from: AcquireOutcome,
  acquireTo: () => Promise<AcquireOutcome>,
): Promise<AcquireOutcome> {
  if (from.status !== 'granted') return from
  const to = await acquireTo().catch(async (error: unknown) => {
    await from.lease.release()
    throw error
  })
  if (to.status !== 'granted') {
    await from.lease.release()
    return to
  }
  if (await sameToken(from.lease, to.lease)) {
    const lease = new MovingLease(from.lease, to.lease)
    if (lease.remainingMs() > 0) return { status: 'granted', lease } // Cells may be far.
  }
  await Promise.all([from.lease.release(), to.lease.release()])
  const split: Split = { status: 'split', resource: labelOf(resources), answers: [] }
  return split
}

/** The next holder in either cell has a larger token than both of these. */
async function sameToken(from: Lease, to: Lease): Promise<boolean> {
  const [lower, higher] = from.fencingToken < to.fencingToken ? [from, to] : [to, from]
  if (lower.fencingToken === higher.fencingToken) return true
  try {
    return lower instanceof QuorumLease && (await lower.raise(higher.fencingToken))
  } catch {
    return false // It was lost meanwhile.
  }
}

function cellsOption(option: string, chosen: unknown, known: readonly string[]): readonly string[] {
  if (!Array.isArray(chosen) || chosen.length === 0) {
    return refuse(option, 'a list of names of `cells`', chosen)
  }
  for (const name of chosen as unknown[]) {
    if (typeof name !== 'string' || !known.includes(name)) {
      refuse(option, `a list of names of \`cells\` (${known.join(', ')})`, name)
    }
  }
  return chosen as string[]
}

const NOTHING_IS_HEARD: Listening = {
  live: false,
  onTurn: () => undefined,
  forget: () => undefined,
  stop: () => undefined,
}
