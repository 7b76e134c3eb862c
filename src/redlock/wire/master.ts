/**
 * One lock server, as the layers above see it: it answers a call, or says why it did not. It never
 * throws. Deadlines belong to the caller. `MasterConnection` is the real one.
 */
import { messageOf } from '../../message-of.ts'
import { deadline, type Clock, type Instant } from '../../clock.ts'
import type { Script } from '../../lua.ts'
import type { Call } from './calls.ts'
import type { ConnectionLimits, MasterAddress } from './connection-settings.ts'
import type { Enrolment } from './enrolment.ts'
import type { ServerFacts } from './server-facts.ts'

/** Who asks one master, or each of a fleet. */
export interface Asker {
  /**
   * What it asks the master. It leaves now, and may run from now on. Undefined where the asker
   * waits no longer: then nothing leaves.
   */
  leaving(master: Master): Call | undefined
  /** What became of it. Later answers change nothing. */
  hear(master: Master, result: CallResult): void
}

/** A master that gave no answer to the question, and why. */
export interface Failed {
  readonly kind: 'failed'
  readonly reason: 'not-ready' | 'timeout' | 'closed' | 'error' | 'malformed' | 'unenrolled'
  readonly detail: string
  /** False only where it is certain that the server did not run the script. */
  readonly mayHaveRun: boolean
}

/** `reply`: `USUAL`, or what the verb returned instead. */
export type CallResult = { readonly kind: 'replied'; readonly reply: unknown } | Failed

/** Why a server must not vote. */
export interface Refusal {
  readonly status: 'refused'
  readonly problem: string
  readonly fix: string
  /** `client`: the client's own settings are wrong, whatever becomes of the server. */
  readonly fault: 'server' | 'client'
}

export type MasterState =
  | { readonly status: 'connecting' | 'enrolling'; readonly detail: string }
  | { readonly status: 'enrolled'; readonly facts: ServerFacts }
  | Refusal
  | { readonly status: 'closed' }

/** How the layer above makes its masters; tests put simulated ones in their place. */
export type Connect = (options: MasterConnectionOptions) => Master

export interface Subscription {
  /** The server has confirmed it, on a connection that stands. */
  readonly active: boolean
}

export type ScriptArgs = readonly (string | number)[]

export interface Master {
  /** `host:port`. */
  readonly name: string
  /** Its place in its fleet. */
  readonly index: number
  /** Another object after every change, so for every connection. */
  readonly state: MasterState
  /** Whether it may vote, and who changes that. */
  readonly enrolment: Enrolment
  /** Answers as late as the connection breaks; at once while it may not vote. */
  readonly ask: (asker: Asker) => void
  /** Hears a channel for as long as the master is not closed. Messages may be lost. */
  listen(channel: string, heard: (message: string) => void): Subscription
  /** Runs a script that need not be loaded, whether it is enrolled; rejects when that fails. */
  eval(script: Script, keys: readonly string[], args: ScriptArgs): Promise<unknown>
  /** Some key that matches the glob pattern, found with SCAN. */
  findKey(pattern: string): Promise<string | undefined>
  close(): void
}

export interface MasterConnectionOptions {
  readonly index: number
  readonly address: MasterAddress
  readonly limits: ConnectionLimits
  readonly clock: Clock
  /** Carries its calls; loaded into the server once it is enrolled. */
  readonly script: Script
  /** Whether such a server may vote: undefined, or why not. */
  readonly admit: (facts: ServerFacts) => Promise<Refusal | undefined>
  readonly onState: (state: MasterState) => void
  /** Hears the server's time where an answer has it, before the callers hear theirs. */
  readonly onTime: (master: Master, serverMs: number, sentAt: Instant) => void
}

/** One call with its own deadline. */
export function callMaster(
  master: Master,
  clock: Clock,
  call: Call,
  timeoutMs: number,
): Promise<CallResult> {
  return new Promise((resolve) => {
    let [isSent, isOver] = [false, false]
    const settle = (result: CallResult): void => {
      isOver = true
      late.cancel()
      resolve(result)
    }
    const late = deadline(clock, timeoutMs, () => {
      settle(noReply(timeoutMs, isSent))
    })
    master.ask({
      leaving: () => {
        isSent = !isOver
        return isSent ? call : undefined
      },
      hear: (_, result) => {
        settle(result)
      },
    })
  })
}

export function failed(reason: Failed['reason'], detail: string, mayHaveRun: boolean): Failed {
  return { kind: 'failed', reason, detail, mayHaveRun }
}

export function noReply(timeoutMs: number, mayHaveRun: boolean): Failed {
  return failed('timeout', `no reply within ${Math.ceil(timeoutMs)} ms`, mayHaveRun)
}

/** Of a master that may not vote now. */
export function notReady(state: MasterState): Failed {
  return failed('not-ready', describeState(state), false)
}

/** What became of a call that has no reply, as far as it is known. */
export function unanswered(error: unknown): Failed {
  const detail = messageOf(error)
  return failed(isErrorReply(error) ? 'error' : 'closed', detail, !detail.startsWith('NOSCRIPT'))
}

/** ioredis marks an error that the server sent as `ReplyError`. */
export function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/** For people: why it may not vote, and what to do. */
export function describeState(state: MasterState): string {
  if (state.status === 'refused') return `${state.problem}; ${state.fix}`
  return 'detail' in state ? `${state.status}: ${state.detail}` : state.status
}
