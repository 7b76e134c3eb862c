/**
 * Time, passed in. The only file that touches timers, `performance.now` and `Date.now`.
 *
 * Validity is counted on the monotonic clock. That clock stands still while a virtual machine is
 * suspended, so a lease is also over when the wall clock says so.
 */
export const DAY_MS = 86_400_000

/** A started timer. */
export interface Timer {
  cancel(): void
  /** Whether the process stays alive for it, as of Node's timers. A clock of a test has neither. */
  ref?(): unknown
  unref?(): unknown
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
    const cancel = (): void => {
      clearTimeout(timeout)
    }
    return Object.assign(timeout, { cancel })
  },
  random: Math.random,
}

/** Its timers keep no process alive: the connection that is waited for does. */
export const idleClock: Clock = {
  ...systemClock,
  after(delayMs, run) {
    const timer = systemClock.after(delayMs, run)
    // rule: open-call-keeps-no-process
    timer.unref?.()
    // `Deadlines` would hold the process again by `ref`.
    return {
      cancel() {
        timer.cancel()
      },
    }
  },
}

/** A test of a user may have replaced these by some that stand still. */
const { setImmediate } = globalThis
let atEnd: (() => unknown)[] = []

/** Calls `run` once, when everything that this turn of the event loop has set off has been done. */
export function atEndOfTurn(run: () => unknown): true {
  if (atEnd.push(run) === 1) setImmediate(endTurn)
  return true
}

/** Calls `run` once, when everything that this callback has set off has been done. */
export const atEndOfCallback: (run: () => unknown) => void = process.nextTick.bind(process)

/** Resolves soon, in a callback of its own. */
export function ownCallback(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

function endTurn(): void {
  const runs = atEnd
  atEnd = []
  let ran = 0
  try {
    while (ran < runs.length) runs[ran++]?.()
  } finally {
    for (const run of runs.slice(ran)) atEndOfTurn(run) // One has failed.
  }
}

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

/** Timers are as late as this now and then. */
const LATE_MS = 10

/**
 * Calls `end`, which was due at `endsAt`. If the process stood still until now, it calls it a
 * little later: answers that came in time are read behind its timers.
 */
export function endOverdue(clock: Clock, endsAt: number, end: () => void): Timer | undefined {
  // rule: answers-that-came-in-time-count
  if (clock.now() - endsAt > LATE_MS) return clock.after(0, end)
  end()
  return undefined
}

/** Calls `end` after `limitMs`, unless it is cancelled before by an answer that came in time. */
export function deadline(clock: Clock, limitMs: number, end: () => void): Timer {
  const endsAt = clock.now() + limitMs
  let timer: Timer | undefined = clock.after(limitMs, () => {
    timer = endOverdue(clock, endsAt, end)
  })
  return {
    cancel() {
      timer?.cancel()
    },
  }
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
    const late = deadline(clock, limitMs, () => {
      resolve(undefined)
    })
    promise
      .finally(() => {
        late.cancel()
      })
      .then(resolve, reject)
  })
}

/** What `promise` resolves to. @throws Error with `late` where it takes longer than `limitMs`. */
export async function mustAnswer<Value>(
  clock: Clock,
  limitMs: number,
  promise: Promise<Value>,
  late: string,
): Promise<Value> {
  const answered = promise.then((value) => ({ value }))
  const answer = await withinMs(clock, limitMs, answered)
  if (answer === undefined) throw new Error(late)
  return answer.value
}

/** What waits, between the one that began before it and the one that began after it. */
export abstract class Expiring {
  /** Undefined while it waits for nothing. */
  list: DeadlineList | undefined
  before: Expiring | undefined
  after: Expiring | undefined
  endsAt = 0
  /** Its time is over. */
  abstract expire(timeoutMs: number): void
}

/** All that are as long end in the order in which they began: one timer is enough. */
export interface DeadlineList {
  readonly timeoutMs: number
  first: Expiring | undefined
  last: Expiring | undefined
  timer: Timer | undefined
}

/** Stands for the timer of a list while those that are due end. */
const OVER: Timer = { cancel: () => undefined }

/** From this number on, empty lists are dropped. */
const MANY_LISTS = 16

/**
 * Deadlines of many on few timers. A deadline passes up to a millisecond late and never early. A
 * `Set` would keep what has left it in its old tables, where it survives collections.
 */
export class Deadlines<Member extends Expiring = Expiring> {
  readonly clock: Clock
  readonly #lists = new Map<number, DeadlineList>()

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** `member` expires unless it leaves before. It waits for the latest of its deadlines. */
  in(timeoutMs: number, member: Member): void {
    if (member.list !== undefined) leave(member)
    let list = this.#lists.get(timeoutMs)
    if (list === undefined) {
      if (this.#lists.size >= MANY_LISTS) this.#forgetEmpty()
      list = { timeoutMs, first: undefined, last: undefined, timer: undefined }
      this.#lists.set(timeoutMs, list)
    }
    const { last } = list
    member.list = list
    member.before = last
    member.endsAt = Math.ceil(this.clock.now()) + timeoutMs // A whole number takes no memory.
    list.last = member
    if (last === undefined) list.first = member
    else last.after = member
    if (list.timer === undefined) this.#endLater(list, timeoutMs)
    else if (last === undefined) list.timer.ref?.()
  }

  /** Those that wait now. */
  members(): readonly Member[] {
    const found: Member[] = []
    for (const { first } of this.#lists.values()) {
      for (let each = first; each !== undefined; each = each.after) found.push(each as Member)
    }
    return found
  }

  /** Of what is due. Its timer is that of an earlier one. */
  #end(list: DeadlineList): void {
    const now = this.clock.now()
    list.timer = OVER
    try {
      // Who listens to the end of one may close them all: the others are still members.
      // rule: due-one-is-a-member-until-its-turn
      for (let { first } = list; first !== undefined && first.endsAt <= now; first = list.first) {
        leave(first)
        first.expire(list.timeoutMs)
      }
    } finally {
      list.timer = undefined
      if (list.first !== undefined) this.#endLater(list, Math.max(1, list.first.endsAt - now))
    }
  }

  #endLater(list: DeadlineList, delayMs: number): void {
    list.timer = this.clock.after(delayMs, () => {
      this.#end(list)
    })
  }

  #forgetEmpty(): void {
    for (const [timeoutMs, { first }] of this.#lists) {
      if (first === undefined) this.#lists.delete(timeoutMs)
    }
  }
}

/** It does not expire. Does nothing for what waits for nothing. */
export function leave(member: Expiring): void {
  const { list, before, after } = member
  if (list === undefined) return
  member.list = member.before = member.after = undefined
  if (before === undefined) list.first = after
  else before.after = after
  if (after === undefined) list.last = before
  else after.before = before
  // It rests until the next one begins: starting a timer costs more.
  if (list.first === undefined) list.timer?.unref?.()
}
