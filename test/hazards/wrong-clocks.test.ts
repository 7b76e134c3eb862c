/** Masters whose wall clocks are wrong, step, or are set right: no second holder comes of it. */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { Redlock, silentLogger, type Lease } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { compileShim, type ClockShim } from '../faults/shimmed-clock.ts'
import { until } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { neverTwoHolders, useBystander } from '../support/undisturbed.ts'
import { item } from '../support/proxied-masters.ts'
import { Harness } from './harness.ts'

const answer = await compileShim()
if (answer.status === 'absent') console.log(`Clocks are not tested here: ${answer.reason}`)

assertNoLeaks()
const HOUR_MS = 3_600_000
const MAX_LEASE_MS = 3_000

/** The leases have to last while a master restarts. */
const undisturbed = useBystander()

describe.skipIf(answer.status === 'absent')('masters with wrong clocks', () => {
  const shim = answer.status === 'ready' ? answer.shim : undefined
  afterAll(() => {
    shim?.remove()
  })

  const step = (fleet: Fleet, index: number, ms: number): void => {
    present(shim).clock(item(fleet.masters, index).port).step(ms)
  }

  const ofFive = (title: string, run: (fleet: Fleet, harness: Harness) => Promise<void>): void => {
    it.concurrent(title, () =>
      undisturbed(async () => {
        await using fleet = await startFleet({ masters: 5, queue: false })
        await using harness = await Harness.open(fleet, MAX_LEASE_MS)
        await run(fleet, harness)
      }),
    )
  }

  /** A lease that has its keys on the first three of five masters only. */
  async function holdThree(harness: Harness, autoExtend = false): Promise<Lease> {
    const holder = await harness.client({ leaseMs: MAX_LEASE_MS })
    await Promise.all(harness.masters.proxies.slice(3).map((proxy) => proxy.dropRequests()))
    const lease = await holder.acquire('r', { waitMs: 0, autoExtend })
    const { token } = lease
    expect(await harness.holders('r')).toEqual([token, token, token, null, null])
    return lease
  }

  /** Asks until the resource is granted, which must not be before the trust in `lease` is over. */
  async function expectOneHolder(lease: Lease, others: readonly Redlock[]): Promise<void> {
    let next: Lease | undefined
    await until('the resource is granted', async () => {
      for (const other of others) {
        const outcome = await other.tryAcquire('r')
        neverTwoHolders(lease, outcome)
        if (outcome.status !== 'granted') continue
        next = outcome.lease
        return true
      }
      return false
    })
    expect(lease.remainingMs()).toBe(0)
    expect(next?.fencingToken).toBeGreaterThan(lease.fencingToken)
  }

  ofFive(
    'a quarantine is not over because a clock that was behind is set right',
    async (fleet, harness) => {
      const connected = await harness.client({ leaseMs: MAX_LEASE_MS, direct: true })
      const lease = await holdThree(harness)
      step(fleet, 0, -HOUR_MS)
      await item(fleet.masters, 0).restart()
      const fresh = await harness.client({ leaseMs: MAX_LEASE_MS, direct: true })
      await until('the master is enrolled again', () =>
        [connected, fresh].every(
          (client) => item(client.status().masters, 0).state !== 'connecting',
        ),
      )
      expect(lease.remainingMs()).toBeGreaterThan(0)
      step(fleet, 0, HOUR_MS)
      const later = await harness.client({ leaseMs: MAX_LEASE_MS, direct: true })
      await expectOneHolder(lease, [connected, fresh, later])
    },
  )

  ofFive(
    'a client that starts after a clock has stepped forward does not count that master',
    async (fleet, harness) => {
      const lease = await holdThree(harness)
      step(fleet, 0, HOUR_MS)
      const fresh = await harness.client({ leaseMs: MAX_LEASE_MS, direct: true })
      expect(item(fresh.status().masters, 0).state).toBe('suspended')
      await expectOneHolder(lease, [fresh])
    },
  )

  ofFive(
    'an extension does not rest on a master whose clock is behind and is set right later',
    async (fleet, harness) => {
      const lease = await holdThree(harness)
      step(fleet, 0, -HOUR_MS)
      await delay(MAX_LEASE_MS / 2)
      // The key is not lengthened by that clock, and ends when it is right again.
      const { status } = await lease.extend()
      step(fleet, 0, HOUR_MS)
      const fresh = await harness.client({ leaseMs: MAX_LEASE_MS, direct: true })
      await expectOneHolder(lease, [fresh])
      expect(status).toBe('unreachable')
    },
  )
})

describe('counters', () => {
  it('a token is larger than one that every master has forgotten, also from a clock that is behind', async () => {
    await using fleet = await startFleet({ masters: 3, queue: false })
    const leaseMs = 200
    const masters = { masters: fleet.urls, maxLeaseMs: leaseMs, fenceTtlMs: 2_000 }
    const limits = { leaseMs, masterTimeoutMs: leaseMs }
    const options = { ...masters, ...limits, logger: silentLogger }
    await using first = new Redlock(options)
    const { fencingToken } = await holdAndRelease(first)
    const isForgotten = async (): Promise<boolean> => {
      const { masters: seen } = await first.inspect('r')
      return seen.every(({ counter, problem }) => counter === undefined && problem === undefined)
    }
    // On a busy machine a master may answer late.
    await until('the counters have expired', () => isForgotten().catch(() => false))
    const wallNow = (): number => Date.now() - HOUR_MS
    await using behind = new Redlock({ ...options, clock: { ...systemClock, wallNow } })
    expect((await holdAndRelease(behind)).fencingToken).toBeGreaterThan(fencingToken)
  })

  it('refuses a client whose counters would expire earlier', async () => {
    await using fleet = await startFleet({ masters: 3, queue: false })
    await using harness = await Harness.open(fleet)
    const hasty = harness.unready({ fenceTtlMs: 300_000, direct: true })
    await expect(hasty.ready()).rejects.toThrow(
      "the fleet's `fenceTtlMs` is 86400000, this client's is 300000",
    )
  })
})

async function holdAndRelease(redlock: Redlock): Promise<Lease> {
  const lease = await redlock.acquire('r', { waitMs: 10_000 })
  await lease.release()
  return lease
}

function present(shim: ClockShim | undefined): ClockShim {
  if (shim === undefined) throw new Error('Without a shim these tests are skipped')
  return shim
}
