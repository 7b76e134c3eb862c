/** Messages between the harness and its clients, over IPC. */
import type { MemberEvent, PausePoint } from './history.ts'

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

export type Command =
  | { readonly command: 'begin'; readonly orders: Orders }
  | { readonly command: 'end' }
  /** Close everything; the process then has nothing left to wait for and ends by itself. */
  | { readonly command: 'leave' }

export type Report =
  | { readonly report: 'ready' }
  | { readonly report: 'begun' }
  | { readonly report: 'events'; readonly events: readonly MemberEvent[] }
  | { readonly report: 'ended' }
