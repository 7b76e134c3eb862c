/**
 * What one lock server (or a cluster that answers as one) is asked. A driver knows its server and
 * no time: trust, renewal, loss, waiting and deadlines are those of `LockClient` and `HeldLease`.
 *
 * Every method may reject; then it is unknown what became of the request. Each call has a deadline
 * of its caller, and may go on behind it: what a late `acquire` is granted is released.
 */
import type { Inspection } from '../lock/inspection.ts'
import type { ListedLease, ServiceHealth } from './service-health.ts'

export interface Wish {
  /** Sorted; all of them or none. */
  readonly resources: readonly string[]
  /** Fresh for every attempt, with the owner's name behind an `@`. */
  readonly token: string
  readonly leaseMs: number
  /** Names all attempts of one waiting `acquire`. Undefined where nothing waits. */
  readonly waiter?: string | undefined
}

/** What the server granted. A driver adds what it needs to find the lease again. */
export interface Claim {
  readonly fencingToken: number
  /** What the server granted, which may be more than was asked for. */
  readonly leaseMs: number
  /** How much of `leaseMs` may have passed before the request was sent. @defaultValue 0 */
  readonly ageMs?: number
}

export type ClaimOutcome<Granted extends Claim> =
  | { readonly status: 'granted'; readonly claim: Granted }
  | {
      readonly status: 'taken'
      readonly resource: string
      readonly holder: string
      readonly retryAfterMs: number
    }
  /** Another attempt is under way: no holder yet. */
  | { readonly status: 'split'; readonly resource: string }

/** `gone`: the server is sure that the lease is over. */
export type Renewal = { readonly ageMs?: number } | 'gone'

export interface Listening {
  /** Another attempt begins. For what hears one change only. */
  again?(): void
  stop(): void
}

export interface LockDriver<Granted extends Claim = Claim> {
  /** For people: `PostgreSQL`, `etcd`, … */
  readonly name: string
  /** Rejects, saying what to do, when no lease could be had. */
  ready(): Promise<void>
  acquire(wish: Wish): Promise<ClaimOutcome<Granted>>
  /** Renews every resource of the claim, or none. */
  extend(claim: Granted): Promise<Renewal>
  /** Idempotent, and never touches a later lease. */
  release(claim: Granted): Promise<void>
  /** Undoes an attempt whose outcome is unknown, and refuses it where it has not arrived yet. */
  abandon(wish: Wish): Promise<void>
  /** Wakes a waiter when another attempt makes sense, from before its first attempt on. */
  listen?(resources: readonly string[], waiter: string, wake: () => void): Listening
  inspect(resource: string): Promise<Inspection>
  /** The leases of the namespace, at most `limit`, in any order. */
  leases?(limit: number): Promise<readonly ListedLease[]>
  /** Asks each server by itself and changes nothing. Does not reject. */
  health?(): Promise<ServiceHealth>
  close(): Promise<void>
}
