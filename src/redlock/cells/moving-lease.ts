/**
 * One lease in two cells, while a resource moves from one to the other: held as long as both are,
 * under one fencing token.
 */
import { labelOf } from '../../lock/resources.ts'
import type { ExtendOutcome, Lease } from '../../lock/lease.ts'

export class MovingLease implements Lease {
  readonly resource: string
  readonly resources: readonly string[]
  readonly fencingToken: number
  readonly leaseMs: number
  /** In the cell it moves from, and in the one it moves to. */
  readonly parts: readonly [Lease, Lease]
  #signal: AbortSignal | undefined

  constructor(from: Lease, to: Lease) {
    this.parts = [from, to]
    this.resources = to.resources
    this.resource = labelOf(to.resources)
    this.fencingToken = to.fencingToken
    this.leaseMs = to.leaseMs
  }

  get token(): string {
    return this.parts[1].token
  }

  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.parts.map(({ signal }) => signal))
    return this.#signal
  }

  get trustedUntil(): number {
    return Math.min(...this.parts.map(({ trustedUntil }) => trustedUntil))
  }

  remainingMs(): number {
    return Math.min(...this.parts.map((part) => part.remainingMs()))
  }

  assertHeld(): void {
    for (const part of this.parts) part.assertHeld()
  }

  async extend(): Promise<ExtendOutcome> {
    const outcomes = await Promise.all(this.parts.map((part) => part.extend()))
    const remainingMs = this.remainingMs()
    const short = outcomes.find(({ status }) => status !== 'extended')
    return short === undefined ? { status: 'extended', remainingMs } : { ...short, remainingMs }
  }

  async release(): Promise<void> {
    await Promise.all(this.parts.map((part) => part.release()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }
}
