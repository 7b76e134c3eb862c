/**
 * Time, passed in. The only file that touches timers, `performance.now` and `Date.now`.
 *
 * Validity is counted on the monotonic clock. That clock stands still while a virtual machine is
 * suspended, so a lease is also over when the wall clock says so.
 */

import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { Bag, type Bagged } from './bag.ts'

/** A started timer. */
export interface Timer {
  cancel(): void
}

export interface Clock {
  /** Monotonic milliseconds, with fractions; only differences mean anything. */
  now(): number
  /** Milliseconds since 1970 as the operating system has them; may jump. */
  wallNow(): number
  /** Calls `run` once, `delayMs` from now, unless cancelled. */
  after(delayMs: number, run: () => void): Timer
  /** A number in [0, 1), for jitter. */
  random(): number
}

/** One moment on both clocks. */
export interface Instant {
  readonly now: number
  readonly wallNow: number
}

export function instant(clock: Clock): Instant {
  return { now: clock.now(), wallNow: clock.wallNow() }
}

/** The longest delay that `setTimeout` takes; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  after(delayMs, run) {
    const timeout = setTimeout(run, Math.min(Math.max(delayMs, 0), MAX_TIMER_MS))
    return {
      cancel: () => {
        clearTimeout(timeout)
      },
    }
  },
  random: Math.random,
}

/** Calls `run` once, when everything that this turn of the event loop has set off has been done. */
export const atEndOfTurn: (run: () => void) => void = setImmediate

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error)
      return
    }
    const onAbort = (): void => {
      timer.cancel()
      reject(signal?.reason as Error)
    }
    const timer = clock.after(delayMs, () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/**
 * What `promise` resolves to, or undefined where that takes longer than `limitMs`. Rejects as
 * `promise` does.
 */
export function withinMs<Value>(
  clock: Clock,
  limitMs: number,
  promise: Promise<Value>,
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    const late = clock.after(limitMs, () => {
      resolve(undefined)
    })
    promise
      .finally(() => {
        late.cancel()
      })
      .then(resolve, reject)
  })
}

/** Calls that begin within this time and allow the same time share one timer. */
const SHARED_MS = 1

export interface Expiring extends Bagged<'deadlinePlace'> {
  /** Must do nothing for what was settled before. */
  expire(timeoutMs: number): void
}

/** What expires together. */
export class Deadline {
  readonly timeoutMs: number
  readonly admitsUntil: number
  readonly members: Bag<'deadlinePlace', Expiring> = new Bag('deadlinePlace')
  isOver = false
  readonly #timer: Timer

  constructor(clock: Clock, timeoutMs: number, now: number) {
    this.timeoutMs = timeoutMs
    this.admitsUntil = now + SHARED_MS
    // The last one to join has its full time.
    this.#timer = clock.after(timeoutMs + SHARED_MS, () => {
      this.isOver = true
      for (const member of this.members.values()) member.expire(timeoutMs)
    })
  }

  leave(member: Expiring): void {
    this.members.delete(member)
    if (this.members.size > 0) return
    this.isOver = true
    this.#timer.cancel()
  }
}

/** Deadlines of many on few timers. A deadline passes up to a millisecond late and never early. */
export class Deadlines {
  readonly #clock: Clock
  #latest: Deadline | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `member` expires unless it leaves the deadline before. */
  in(timeoutMs: number, member: Expiring): Deadline {
    const now = this.#clock.now()
    let deadline = this.#latest
    const isShared =
      deadline?.isOver === false && deadline.timeoutMs === timeoutMs && now <= deadline.admitsUntil
    if (deadline === undefined || !isShared) {
      deadline = new Deadline(this.#clock, timeoutMs, now)
      this.#latest = deadline
    }
    deadline.members.add(member)
    return deadline
  }
}

const OFFSET_SAMPLES = 5
let offsetMs: number | undefined

/**
 * What to add to `systemClock.now()` for the monotonic clock that all processes of a machine share.
 */
export function machineOffsetMs(): number {
  offsetMs ??= measuredOffsetMs()
  return offsetMs
}

/** Of several readings the one that took least: a process may be interrupted between two clocks. */
function measuredOffsetMs(): number {
  let best = { tookMs: Infinity, offsetMs: 0 }
  for (let sample = 0; sample < OFFSET_SAMPLES; sample++) {
    const before = performance.now()
    const machineMs = Number(process.hrtime.bigint()) / 1e6
    const tookMs = performance.now() - before
    if (tookMs < best.tookMs) best = { tookMs, offsetMs: machineMs - before - tookMs / 2 }
  }
  return best.offsetMs
}

const BOOT_ID = '/proc/sys/kernel/random/boot_id'
let machine: string | undefined

/**
 * Names the machine, and on Linux its boot: what has the same name has the same monotonic clock.
 */
export function machineId(): string {
  machine ??= readMachineId()
  return machine
}

function readMachineId(): string {
  try {
    return readFileSync(BOOT_ID, 'utf8').trim()
  } catch {
    return hostname() // No Linux.
  }
}
