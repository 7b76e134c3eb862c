/** What the comparison asks a library's process to do, over IPC. */
import type { Reason, Setup } from '../peers/adapter.ts'

export type AcquireResult =
  | {
      readonly status: 'held'
      readonly held: number
      readonly tookMs: number
      readonly remainingMs: number | undefined
      readonly fencingToken: number | undefined
    }
  | {
      readonly status: 'refused'
      readonly tookMs: number
      readonly reason: Reason
      readonly message: string
    }

export interface WorkState {
  /** When the library said that the lease is lost. */
  readonly lostAt: number | undefined
  /** What `using` came to. */
  readonly settled:
    { readonly ok: boolean; readonly value: string; readonly at: number } | undefined
  /** What came of taking the resource again inside the work. */
  readonly inner?: 'granted' | 'refused'
}

export interface Lock {
  readonly client: number
  readonly resource: string
  readonly ttlMs: number
  /** Inside the work, takes the resource again and releases that. */
  readonly nested?: boolean
}

/** Every operation: its argument and its answer. */
export interface Calls {
  versions: { readonly argument: null; readonly answer: readonly string[] }
  connect: {
    readonly argument: Setup
    readonly answer: { readonly client: number; readonly keyPrefix: string }
  }
  acquire: { readonly argument: Lock; readonly answer: AcquireResult }
  look: {
    readonly argument: number
    readonly answer: { readonly isHeld: boolean; readonly remainingMs: number | undefined }
  }
  release: { readonly argument: number; readonly answer: null }
  /** Answers when the work has begun; it goes on until it is finished. */
  startUsing: { readonly argument: Lock; readonly answer: number }
  work: { readonly argument: number; readonly answer: WorkState }
  finish: {
    readonly argument: { readonly work: number; readonly error?: string }
    readonly answer: null
  }
  close: { readonly argument: number; readonly answer: null }
}
