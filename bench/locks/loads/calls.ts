/**
 * What the harness asks a contender's process to do, over IPC. Whatever is measured is measured
 * inside that process.
 */
import type { Setup } from '../../peers/adapter.ts'
import type { Quantiles } from '../../statistics.ts'

/** A load runs on the clients of one group. */
interface Load {
  readonly group: number
  readonly ttlMs: number
}

/** Acquire and release, again and again, by this number at once. */
export interface Flow extends Load {
  readonly concurrency: number
  readonly resources: number
  /** `walk`: every one of them has resources of its own. `random`: they meet. */
  readonly order: 'walk' | 'random'
  /** Ends after this time, or after `operations`. */
  readonly durationMs: number
  readonly operations?: number
  /** What the names of the resources begin with. @defaultValue 'r' */
  readonly prefix?: string
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

/** Every client of the group wants the same resource, again and again. */
export interface Turns extends Load {
  readonly holdMs: number
  readonly durationMs: number
}

export interface TurnsResult {
  /** Turns that ended in time. */
  readonly done: number
  /** Waits that ended without a lease. */
  readonly failed: number
  /** Moments in which two held it. */
  readonly overlaps: number
  readonly waitMs: Quantiles
  /** The mean wait of each contender. */
  readonly waitMsOf: readonly number[]
  readonly cpuMs: number
}

/** Extends leases, again and again, each as soon as its last extension is there. */
export interface Extensions extends Load {
  readonly leases: number
  readonly durationMs: number
}

export interface ExtensionsResult {
  readonly done: number
  readonly failed: number
  readonly tookMs: number
  readonly cpuMs: number
  readonly extendMs: Quantiles
}

/** Takes this number of leases and keeps them until `letGo`. */
export interface Holding extends Load {
  readonly leases: number
  readonly concurrency: number
}

export interface HoldingResult {
  /** Of what the process needs for each of them. */
  readonly heapBytes: number
  /** All of them were still held when the memory was looked at. */
  readonly held: boolean
}

/** Every call: its argument and its answer. */
export interface Calls {
  versions: { readonly argument: null; readonly answer: readonly string[] }
  /** Opens clients of the library; the answer names the group. */
  open: {
    readonly argument: { readonly setup: Setup; readonly clients: number }
    readonly answer: number
  }
  close: { readonly argument: number; readonly answer: null }
  flow: { readonly argument: Flow; readonly answer: FlowResult }
  turns: { readonly argument: Turns; readonly answer: TurnsResult }
  extensions: { readonly argument: Extensions; readonly answer: ExtensionsResult }
  hold: { readonly argument: Holding; readonly answer: HoldingResult }
  letGo: { readonly argument: null; readonly answer: null }
  /** Bytes in use after a garbage collection. */
  heap: { readonly argument: null; readonly answer: number }
}
