/**
 * What the harness asks a contender's process to do, over IPC. Whatever is measured is measured
 * inside that process.
 */
import type { Setup } from '../../peers/adapter.ts'
import type { Quantiles } from '../../statistics.ts'

/** A load runs on one client. */
interface Load {
  readonly client: number
  readonly ttlMs: number
}

/** Acquire and release, again and again, by this number at once, each with separate resources. */
export interface Flow extends Load {
  readonly concurrency: number
  readonly resources: number
  readonly durationMs: number
}

export interface FlowResult {
  readonly done: number
  readonly failed: number
  /** Neither granted nor refused a while after the end. */
  readonly stuck: number
  readonly tookMs: number
  readonly cpuMs: number
  readonly acquireMs: Quantiles
}

/** This number of waiters want the same resource, again and again. */
export interface Turns extends Load {
  readonly holdMs: number
  readonly durationMs: number
  readonly waiters: number
}

export interface TurnsResult {
  /** Turns that ended in time. */
  readonly done: number
  /** Waits that ended without a lease. */
  readonly failed: number
  /** Moments in which two held it. */
  readonly overlaps: number
  readonly waitMs: Quantiles
  /** From the call that releases it to the next grant. */
  readonly gapMs: Quantiles
  readonly cpuMs: number
}

/** Takes this number of leases and keeps them until `letGo`. */
export interface Holding extends Load {
  readonly leases: number
  readonly concurrency: number
}

export interface HoldingResult {
  /** Of what the process needs for each of them. */
  readonly heapBytes: number
  /** All of them were still held when the memory was read. */
  readonly held: boolean
}

/** Every call: its argument and its answer. */
export interface Calls {
  versions: { readonly argument: null; readonly answer: readonly string[] }
  /** Opens a client of the library; the answer names it. */
  open: { readonly argument: Setup; readonly answer: number }
  close: { readonly argument: number; readonly answer: null }
  flow: { readonly argument: Flow; readonly answer: FlowResult }
  turns: { readonly argument: Turns; readonly answer: TurnsResult }
  hold: { readonly argument: Holding; readonly answer: HoldingResult }
  letGo: { readonly argument: null; readonly answer: null }
}
