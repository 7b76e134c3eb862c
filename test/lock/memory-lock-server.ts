/** A lock server in this process for `LockClient`, whose faults the test chooses. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Inspection } from '../../src/lock/inspection.ts'
import type {
  Claim,
  ClaimOutcome,
  Listening,
  LockDriver,
  Renewal,
  Wish,
} from '../../src/lock/lock-driver.ts'
import type { TestNetwork } from '../../src/testing/index.ts'

interface Row {
  token: string
  until: number
}

export interface MemoryClaim extends Claim {
  readonly wish: Wish
}

/** What one wrong server does otherwise. */
export interface Wrong {
  readonly grantsAlways?: boolean
  /** Ends leases after this part of their time. */
  readonly endsAfter?: number
  readonly sameToken?: boolean
  readonly ignoresOwner?: boolean
  readonly grantsSome?: boolean
  /** The client's trust counts from the reply. */
  readonly fromReply?: boolean
}

export class MemoryLockServer {
  readonly #rows = new Map<string, Row>()
  readonly #waiters = new Map<string, Set<() => void>>()
  readonly #refused = new Set<string>()
  readonly #wrong: Wrong
  #token = 0
  #delayMs = 0
  #isCut = false
  #healed: (() => void)[] = []

  constructor(wrong: Wrong = {}) {
    this.#wrong = wrong
  }

  readonly network: TestNetwork = {
    delayReplies: (delayMs) => {
      this.#delayMs = delayMs
    },
    cut: () => {
      this.#isCut = true
      return Promise.resolve()
    },
    heal: () => {
      this.#isCut = false
      this.#delayMs = 0
      for (const go of this.#healed.splice(0)) go()
      return Promise.resolve()
    },
  }

  driver(): LockDriver<MemoryClaim> {
    return {
      name: 'memory',
      ready: () => Promise.resolve(),
      acquire: (wish) => this.#asked(() => this.#acquire(wish)),
      extend: (claim) => this.#asked(() => this.#extend(claim)),
      release: ({ wish }) =>
        this.#asked(() => {
          this.#release(wish)
        }),
      abandon: (wish) =>
        this.#asked(() => {
          this.#refused.add(wish.token)
          this.#release(wish)
        }),
      listen: (resources) => this.#listen(resources),
      inspect: (resource) => Promise.resolve(this.#inspect(resource)),
      close: () => Promise.resolve(),
    }
  }

  async #asked<Answer>(act: () => Answer): Promise<Answer> {
    const startedAt = performance.now()
    if (this.#isCut) await new Promise<void>((resolve) => this.#healed.push(resolve))
    const answer = act()
    if (this.#delayMs > 0) await delay(this.#delayMs)
    if (this.#wrong.fromReply === true && typeof answer === 'object' && answer !== null) {
      const ageMs = startedAt - performance.now()
      if ('claim' in answer) {
        const { claim } = answer as { claim: object }
        return { ...answer, claim: { ...claim, ageMs } }
      }
      return { ...answer, ageMs }
    }
    return answer
  }

  #acquire(wish: Wish): ClaimOutcome<MemoryClaim> {
    const now = performance.now()
    const { grantsAlways, grantsSome, endsAfter = 1, sameToken } = this.#wrong
    const held = wish.resources.find((name) => (this.#rows.get(name)?.until ?? 0) > now)
    const row = held === undefined ? undefined : this.#rows.get(held)
    const isRefused = this.#refused.has(wish.token)
    const isSome = grantsSome === true && wish.resources.length > 1
    if ((row !== undefined || isRefused) && grantsAlways !== true && !isSome) {
      const retryAfterMs = Math.max(0, (row?.until ?? now) - now)
      return { status: 'taken', resource: held ?? '', holder: row?.token ?? '', retryAfterMs }
    }
    if (sameToken !== true) this.#token++
    const until = now + wish.leaseMs * endsAfter
    for (const name of wish.resources) this.#rows.set(name, { token: wish.token, until })
    return {
      status: 'granted',
      claim: { fencingToken: this.#token, leaseMs: wish.leaseMs, wish },
    }
  }

  #extend({ wish }: MemoryClaim): Renewal {
    const now = performance.now()
    const rows = wish.resources.map((name) => this.#rows.get(name))
    if (rows.some((row) => row?.token !== wish.token || row.until <= now)) return 'gone'
    for (const row of rows) if (row !== undefined) row.until = now + wish.leaseMs
    return {}
  }

  #release(wish: Wish): void {
    for (const name of wish.resources) {
      if (this.#rows.get(name)?.token === wish.token || this.#wrong.ignoresOwner === true) {
        this.#rows.delete(name)
      }
      for (const wake of this.#waiters.get(name) ?? []) wake()
    }
  }

  #listen(resources: readonly string[]): Listening {
    let wake = (): void => undefined
    const awake = (): void => {
      wake()
    }
    for (const name of resources) {
      const waiters = this.#waiters.get(name) ?? new Set()
      this.#waiters.set(name, waiters.add(awake))
    }
    return {
      changed: () =>
        new Promise<void>((resolve) => {
          wake = resolve
        }),
      stop: () => {
        for (const name of resources) this.#waiters.get(name)?.delete(awake)
      },
    }
  }

  #inspect(resource: string): Inspection {
    const row = this.#rows.get(resource)
    return { resource, masters: [{ master: 'memory', ...(row && { holder: row.token }) }] }
  }
}
