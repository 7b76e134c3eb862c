/**
 * One lock server, as the layers above see it: a thing that answers a script call within a deadline
 * or says why it did not. It never throws and never waits longer than asked. `MasterConnection` is the real one.
 */
import type { Clock } from '../clock.ts'
import type { Call, Entry, Library } from './batch.ts'
import type { ConnectionLimits, MasterAddress } from './connection-settings.ts'
import type { ServerFacts } from './server-facts.ts'
import type { Script } from './script.ts'

export type CallResult =
  | ({ readonly ok: true } & Entry)
  | {
      readonly ok: false
      readonly reason: 'not-ready' | 'timeout' | 'closed' | 'error'
      readonly detail: string
      /** False only where it is certain that the server did not run the script. */
      readonly mayHaveRun: boolean
    }

export type MasterState =
  | { readonly status: 'connecting'; readonly detail: string }
  | { readonly status: 'enrolling'; readonly detail: string }
  | { readonly status: 'enrolled'; readonly facts: ServerFacts }
  | { readonly status: 'refused'; readonly problem: string; readonly fix: string }
  | { readonly status: 'closed' }

/** How the layer above makes its masters; tests put simulated ones in their place. */
export type Connect = (options: MasterConnectionOptions) => Master

export interface Subscription {
  /** The server has confirmed it, on a connection that stands. */
  readonly active: boolean
}

export interface Master {
  /** `host:port`. */
  readonly name: string
  /** Another object after every change, so for every connection. */
  readonly state: MasterState
  /** The run id this connection enrolled; empty while it may not vote. */
  readonly runId: string
  call(call: Call, timeoutMs: number): Promise<CallResult>
  /** Reads the server's facts and enrols it again before it may vote. */
  reenrol(why: string): void
  /** Resolves true as soon as the master is enrolled, false after `limitMs` or when it is closed. */
  whenEnrolled(limitMs: number): Promise<boolean>
  /** Hears what is published on a channel, for as long as the master is not closed. Messages may be lost. */
  listen(channel: string, heard: (message: string) => void): Subscription
  /** Runs a script that need not be loaded, on an enrolled master or not; rejects when that fails. */
  eval(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown>
  /** Some key that matches the glob pattern, found with SCAN. */
  findKey(pattern: string): Promise<string | undefined>
  /** Resolves when the master is enrolled or refused, or its first attempt to connect has failed. */
  readonly firstAnswer: Promise<void>
  close(): void
}

export type Admission =
  | { readonly admitted: true }
  | { readonly admitted: false; readonly problem: string; readonly fix: string }

export interface MasterConnectionOptions {
  readonly address: MasterAddress
  readonly limits: ConnectionLimits
  readonly clock: Clock
  /** Loaded into the server once it is enrolled. */
  readonly library: Library
  /** What all calls have in common; the library's prelude reads it. */
  readonly standing: readonly string[]
  admit(master: Master, facts: ServerFacts): Promise<Admission>
  onState(master: Master, state: MasterState): void
}

export function describeState(state: MasterState): string {
  switch (state.status) {
    case 'enrolled':
      return 'may vote'
    case 'refused':
      return `${state.problem}; ${state.fix}`
    case 'closed':
      return 'closed'
    default:
      return `${state.status}: ${state.detail}`
  }
}
