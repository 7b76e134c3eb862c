/**
 * Lets `using` inside `using` join the lease that the same asynchronous context already holds,
 * instead of waiting for itself. The lease is released when the last of its users has ended.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { refuse } from '../options.ts'
import { acquireTerms, type AcquireOptions, type LeaseDefaults } from './lease-options.ts'
import type { Lease } from './lease.ts'
import type { LockService } from './lock-service.ts'
import { labelOf, resourceNames } from '../names.ts'
import { slotsOf, type Slots } from '../slots.ts'

interface SharedLease {
  readonly lease: Lease
  /** What was asked for; with slots, the lease covers one of them. */
  readonly resources: readonly string[]
  readonly slots: Slots
  users: number
}

export class HeldLeases {
  readonly #context = new AsyncLocalStorage<readonly SharedLease[]>()

  /** Runs under the lease that this context has on all of `resource`, or under a new one. */
  async using<Result>(
    service: Pick<LockService, 'acquire'>,
    defaults: LeaseDefaults,
    resource: string | readonly string[],
    options: AcquireOptions,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result> {
    const resources = resourceNames(resource)
    const { slots } = acquireTerms(options, defaults).terms
    if (typeof routine !== 'function') {
      refuse('routine', 'a function of the lease, after the options (`{}` for none)', routine)
    }
    const shared = this.#covering(resources, slots)
    if (shared !== undefined) return this.#run(shared, routine)
    const { autoExtend = true } = options
    const lease = await service.acquire(resources, { ...options, autoExtend })
    return this.#run({ lease, resources, slots, users: 0 }, routine)
  }

  /**
   * The lease in this context that covers all of `resources`, if there is one.
   * @throws TypeError when one covers only some of them: waiting for the rest could be a deadlock.
   */
  #covering(resources: readonly string[], slots: Slots): SharedLease | undefined {
    for (const shared of this.#context.getStore() ?? []) {
      // Work that outlived its lease and still runs in its context.
      if (shared.users === 0) continue
      const covered = resources.filter((resource) => shared.resources.includes(resource))
      for (const resource of covered) {
        const [inner, outer] = [slotsOf(slots, resource), slotsOf(shared.slots, resource)]
        // A slot is not the resource: each would let others in that the other one keeps out.
        // rule: nested-calls-have-the-same-slots
        if (inner !== outer) refuse('slots', `${outer}, as in the outer call`, inner)
      }
      if (covered.length === resources.length) return shared
      if (covered.length > 0) {
        const why = `covered by the lease that is already held here (${labelOf(shared.resources)}): take all of them in the outer call`
        refuse('resource', why, labelOf(resources))
      }
    }
    return undefined
  }

  /** @throws LeaseLostError when the lease is over already; else what the routine throws. */
  async #run<Result>(
    shared: SharedLease,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result> {
    shared.lease.assertHeld()
    shared.users++
    try {
      const held = [shared, ...(this.#context.getStore() ?? [])]
      return await this.#context.run(held, async () => routine(shared.lease))
    } finally {
      shared.users--
      if (shared.users === 0) await shared.lease.release()
    }
  }
}
