/** What the harness tells its clients. */
import type { PausePoint } from './history.ts'

/** A run: every loop takes a resource, works on it, gives it back, and begins again. */
export interface Orders {
  /** Names the member in owners and lease names; unique in the run. */
  readonly name: string
  /** The lock masters; or `locks`. */
  readonly urls: readonly string[]
  /** The address of another lock service. */
  readonly locks?: string
  readonly storeUrl: string
  /** Where to log its leases. */
  readonly leaseLogs: string
  readonly namespace: string
  readonly resources: readonly string[]
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly masterTimeoutMs: number
  readonly loops: number
  /** The longest pause between two steps under one lease. */
  readonly holdMs: number
  readonly seed: number
  readonly pauses?: Pauses
  /**
   * Write without looking at the lease, as code does that was stopped between the look and the
   * write.
   */
  readonly stubborn?: boolean
}

/**
 * How a member stops itself in the middle of things: at each point in turn, and then from the first
 * again.
 */
export interface Pauses {
  readonly points: readonly PausePoint[]
  /**
   * `block` keeps the event loop busy for `ms`; `stop` sends SIGSTOP to itself, and somebody has to
   * send SIGCONT.
   */
  readonly how: 'block' | 'stop'
  readonly ms: number
}

/** What a member is asked: to work, and to end its work. It tells its events by itself. */
export interface MemberCalls {
  begin: { readonly argument: Orders; readonly answer: null }
  end: { readonly argument: null; readonly answer: null }
}
