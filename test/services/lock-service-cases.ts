/**
 * What every lock service must do, as cases for any test runner. A service passes when each `run`
 * resolves; a case rejects with what it saw. Cases use real time, and take a few leases each.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { Lease } from '../../src/lock/lease.ts'
import type { LeaseOptions } from '../../src/lock/lease-options.ts'
import type { Capability, LockService } from '../../src/lock/lock-service.ts'
import type { TestNetwork } from '../../src/testing/index.ts'

/** The lock service that is tested. */
export interface LockServiceUnderTest {
  /**
   * Another client of the same servers and the same namespace, ready to acquire. Closed by the
   * case.
   */
  open(): Promise<LockService>
  /**
   * Between all of these clients and their servers. Without it, cases that need a fault are left
   * out.
   */
  readonly network?: TestNetwork
}

/** One case: what must hold, and a function that finds out. */
export interface LockServiceCase {
  /** What must hold. */
  readonly name: string
  /** Rejects with what it saw where the case fails. */
  readonly run: () => Promise<void>
}

interface Clients {
  readonly a: LockService
  readonly b: LockService
  readonly network: TestNetwork
  /** A name that no other case has used. */
  readonly resource: () => string
}

type Needs = 'network' | Capability

const CASES: readonly {
  readonly name: string
  readonly needs?: Needs
  readonly run: (clients: Clients) => Promise<void>
}[] = [
  { name: 'one of many contenders is granted', run: exclusion },
  { name: 'contenders are granted one after the other', run: contention },
  { name: 'inspect names the holder and hides its token', run: inspection },
  { name: 'a lease that is not renewed ends, and not before its trust', run: expiry },
  { name: 'trust counts from before the request', needs: 'network', run: trustFromTheRequest },
  { name: 'the end of trust is seen by a blocked event loop', run: blockedHolder },
  {
    name: 'the signal aborts at the end of trust, without the network',
    needs: 'network',
    run: loss,
  },
  { name: 'an extension keeps the lease', run: extension },
  { name: 'a lease that is over is not extended', run: noRevival },
  { name: 'a late grant is refused and leaves nothing behind', needs: 'network', run: lateGrant },
  { name: 'fencing tokens increase', run: fencingTokens },
  { name: 'release is idempotent and spares the next holder', run: idempotentRelease },
  { name: 'a release that the network lost is repeated', needs: 'network', run: lostRelease },
  { name: 'taken and unreachable differ', needs: 'network', run: takenOrUnreachable },
  { name: 'several resources are granted together or not at all', run: severalResources },
  { name: 'a waiting acquire is granted after a release', run: waiting },
  { name: 'a waiter for several resources holds none of them', run: waitingForSeveral },
  { name: 'an aborted wait ends at once and keeps no client out', run: abortedWait },
  { name: 'a release wakes a waiter', needs: 'announcements', run: announcement },
  { name: 'using keeps the lease alive and releases it', run: using },
  { name: 'a limit ends the extensions', run: limits },
  { name: 'a lease is handed over without a gap', run: handOver },
  { name: 'a resource with slots has as many holders', needs: 'slots', run: slots },
  { name: 'close aborts what is held, releases it, and refuses calls', run: closing },
]

/**
 * A case passes where the service `lacks` what it needs. Without `network`, cases that need a fault
 * are left out.
 */
export function lockServiceCases(service: LockServiceUnderTest): readonly LockServiceCase[] {
  return CASES.filter(({ needs }) => needs !== 'network' || service.network !== undefined).map(
    ({ name, needs, run }) => ({
      name,
      async run() {
        const opened = [await service.open(), await service.open()] as const
        const [a, b] = opened
        const { network = NO_NETWORK } = service
        const resource = (): string => `{case}:${randomBytes(6).toString('hex')}`
        try {
          const isLacking = needs !== undefined && needs !== 'network' && a.lacks?.includes(needs)
          if (isLacking !== true) await run({ a, b, network, resource })
        } finally {
          await network.heal()
          await Promise.all(opened.map((client) => client.close()))
        }
      },
    }),
  )
}

const NO_NETWORK: TestNetwork = {
  delayReplies: () => undefined,
  cut: () => Promise.resolve(),
  heal: () => Promise.resolve(),
}

async function exclusion({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const outcomes = await Promise.all(
    Array.from({ length: 16 }, (_, index) => (index % 2 === 0 ? a : b).tryAcquire(name)),
  )
  const leases = outcomes.flatMap((one) => (one.status === 'granted' ? [one.lease] : []))
  check(leases.length <= 1, `${leases.length} of 16 contenders were granted at once`)
  const lease = leases[0] ?? (await a.acquire(name, { waitMs: 4 * a.leaseMs }))
  const refused = await b.tryAcquire(name)
  check(refused.status === 'taken', `a held resource is ${refused.status} and not taken`)
  const { retryAfterMs } = refused
  check(retryAfterMs >= 0 && retryAfterMs <= lease.leaseMs, `retryAfterMs is ${retryAfterMs}`)
  await lease.release()
  await (await acquired(b, name)).release()
}

async function expiry({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name)
  const next = await b.acquire(name, { waitMs: 4 * lease.leaseMs })
  const early = lease.trustedUntil - performance.now()
  check(early <= 0, `another client was granted ${early} ms before the end of trust`)
  check(lease.signal.aborted || lease.remainingMs() === 0, 'the first lease still counts as held')
  check(next.fencingToken > lease.fencingToken, 'the next fencing token is not larger')
  await next.release()
}

async function trustFromTheRequest({ a, network, resource }: Clients): Promise<void> {
  const name = resource()
  const delayMs = a.leaseMs / 10
  // A first lease of a resource may take more trips, which a slow network does not leave time for.
  await (await acquired(a, name)).release()
  network.delayReplies(delayMs)
  const startedAt = performance.now()
  const outcome = await a.tryAcquire(name)
  check(outcome.status === 'granted', `a free resource is ${outcome.status}`)
  const { lease } = outcome
  const latest = startedAt + lease.leaseMs
  check(performance.now() - startedAt >= delayMs - 1, 'the network was not slow')
  check(lease.trustedUntil <= latest, 'trust counts from the reply')
  const extendedFrom = performance.now()
  await lease.extend()
  const latestExtended = extendedFrom + lease.leaseMs
  check(lease.trustedUntil <= latestExtended, 'an extension counts from its reply')
  network.delayReplies(0)
  await lease.release()
}

async function blockedHolder({ a, resource }: Clients): Promise<void> {
  const lease = await acquired(a, resource())
  const end = lease.trustedUntil
  while (performance.now() <= end) {
    // Nothing else runs: no timer, no answer.
  }
  check(lease.remainingMs() === 0, `${lease.remainingMs()} ms are left after the end of trust`)
  await rejects('assertHeld', async () => {
    await Promise.resolve()
    lease.assertHeld()
  })
  check(lease.signal.aborted, 'the signal did not abort')
}

async function loss({ a, network, resource }: Clients): Promise<void> {
  const lease = await acquired(a, resource(), { autoExtend: true })
  await network.cut()
  await Promise.race([aborted(lease.signal), delay(3 * lease.leaseMs)])
  check(lease.signal.aborted, 'the signal did not abort while the servers were cut off')
  check(lease.remainingMs() === 0, 'the lease has time left after its loss')
  const code = (lease.signal.reason as { code?: string } | undefined)?.code
  check(code === 'LEASE_LOST', `the signal's reason has the code ${code ?? 'undefined'}`)
}

async function extension({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name)
  const first = lease.trustedUntil
  while (performance.now() <= first + lease.leaseMs / 4) {
    await lease.extend()
    await delay(lease.leaseMs / 8)
  }
  check(lease.trustedUntil > first, 'extend did not move the end of trust')
  check(!lease.signal.aborted, 'the lease was lost in spite of its extensions')
  const outcome = await b.tryAcquire(name)
  check(outcome.status === 'taken', `an extended resource is ${outcome.status}`)
  await lease.release()
}

async function noRevival({ a, resource }: Clients): Promise<void> {
  const lease = await acquired(a, resource())
  await aborted(lease.signal)
  await rejects('extend', () => lease.extend())
  check(lease.remainingMs() === 0, 'the lease came back to life')
}

async function lateGrant({ a, b, network, resource }: Clients): Promise<void> {
  const name = resource()
  await (await acquired(a, resource())).release()
  network.delayReplies(1.5 * a.leaseMs)
  const outcome = await a.tryAcquire(name)
  if (outcome.status === 'granted') {
    check(outcome.lease.remainingMs() > 0, 'a lease was granted whose trust is over')
  }
  check(outcome.status !== 'granted', 'a reply later than the lease granted it')
  network.delayReplies(0)
  await network.heal()
  const next = await b.acquire(name, { waitMs: 5 * a.leaseMs })
  check(next.remainingMs() > 0, 'the resource did not become free')
  await next.release()
}

async function fencingTokens({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  let last = -1
  for (let round = 0; round < 12; round++) {
    const lease = await acquired(round % 2 === 0 ? a : b, name)
    const { fencingToken } = lease
    check(Number.isSafeInteger(fencingToken), `the fencing token is ${fencingToken}`)
    check(fencingToken > last, `fencing token ${fencingToken} follows ${last}`)
    last = fencingToken
    if (round === 10) await aborted(lease.signal)
    else await lease.release()
  }
}

async function idempotentRelease({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name)
  await lease.release()
  check(lease.remainingMs() === 0, 'a released lease has time left')
  const next = await acquired(b, name)
  await lease.release()
  await lease.release()
  const outcome = await a.tryAcquire(name)
  check(outcome.status === 'taken', 'a second release freed the lease of the next holder')
  await next.release()
  const old = await acquired(a, name)
  await aborted(old.signal)
  const third = await b.acquire(name, { waitMs: 4 * b.leaseMs })
  await old.release()
  const again = await a.tryAcquire(name)
  check(again.status === 'taken', 'the release of a lost lease freed that of the next holder')
  await third.release()
}

async function lostRelease({ a, b, network, resource }: Clients): Promise<void> {
  const name = resource()
  const { maxLeaseMs } = a
  const lease = await acquired(a, name, { leaseMs: maxLeaseMs })
  await network.cut()
  await lease.release()
  await network.heal()
  await (await b.acquire(name, { waitMs: Math.ceil(maxLeaseMs / 2) })).release()
}

async function takenOrUnreachable({ a, b, network, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(b, name)
  const taken = await a.tryAcquire(name)
  check(taken.status === 'taken', `a held resource is ${taken.status}`)
  await network.cut()
  const outcome = await a.tryAcquire(resource())
  check(outcome.status === 'unreachable', `without servers the outcome is ${outcome.status}`)
  check(outcome.answers.length > 0, 'an unreachable outcome names no server')
  await network.heal()
  await lease.release()
  const again = await a.acquire(resource(), { waitMs: 10 * a.leaseMs + 10_000 })
  await again.release()
}

async function severalResources({ a, b, resource }: Clients): Promise<void> {
  const names = [resource(), resource(), resource()].sort()
  const [first = '', middle = '', last = ''] = names
  const one = await acquired(a, middle)
  const refused = await b.tryAcquire(names)
  check(refused.status !== 'granted', 'a list was granted while one of it was held')
  await (await acquired(a, first)).release()
  await (await acquired(a, last)).release()
  await one.release()
  const all = await b.acquire([last, first, middle], { waitMs: 2 * b.leaseMs })
  check(all.resources.join() === names.join(), 'the lease does not list its resources')
  check(all.fencingToken > one.fencingToken, 'the fencing token of a list is not larger')
  for (const name of names) {
    const outcome = await a.tryAcquire(name)
    check(outcome.status !== 'granted', 'a resource of a held list was granted')
  }
  const extended = await all.extend()
  check(extended.status === 'extended', `a list is not extended: ${extended.status}`)
  await all.release()
  for (const name of names) await (await acquired(a, name)).release()
}

async function waiting({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name)
  const next = b.acquire(name, { waitMs: 10 * b.leaseMs })
  next.catch(() => undefined) // Reported below.
  await delay(a.leaseMs / 5)
  await lease.release()
  const { fencingToken } = await released(next)
  check(fencingToken > lease.fencingToken, 'the fencing token of a waiter is not larger')
  const held = await acquired(a, name, { autoExtend: true })
  await rejects('acquire beyond waitMs', () => b.acquire(name, { waitMs: b.leaseMs / 4 }))
  await held.release()
}

async function waitingForSeveral({ a, b, resource }: Clients): Promise<void> {
  const [held, free] = [resource(), resource()]
  const lease = await acquired(a, held, { autoExtend: true })
  const both = b.acquire([held, free], { waitMs: 20 * b.leaseMs })
  both.catch(() => undefined) // Reported below.
  await delay(a.leaseMs / 5)
  for (let round = 0; round < 3; round++) await (await acquired(a, free)).release()
  await lease.release()
  await released(both)
}

async function abortedWait({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name, { autoExtend: true })
  const reason = new Error('not needed any more')
  const controller = new AbortController()
  const wait = b.acquire(name, { waitMs: 60_000, signal: controller.signal })
  await delay(a.leaseMs / 5)
  const abortedAt = performance.now()
  controller.abort(reason)
  const thrown = await wait.then(
    () => undefined,
    (error: unknown) => error,
  )
  check(thrown === reason, `an aborted wait threw ${String(thrown)}`)
  const tookMs = performance.now() - abortedAt
  check(tookMs < 10_000, `an aborted wait went on for ${tookMs} ms`)
  await lease.release()
  const next = await a.acquire(name, { waitMs: 4 * a.leaseMs })
  await next.release()
}

async function announcement({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name, { autoExtend: true })
  const next = b.acquire(name, { waitMs: 20 * b.leaseMs })
  next.catch(() => undefined) // Reported below.
  await delay(a.leaseMs / 2)
  const releasedAt = performance.now()
  await lease.release()
  await released(next)
  const tookMs = performance.now() - releasedAt
  check(tookMs < a.leaseMs / 2, `a waiter was granted ${tookMs} ms after the release`)
}

async function using({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const result = await a.using(name, {}, async (lease) => {
    const first = lease.trustedUntil
    while (performance.now() < first + lease.leaseMs / 4) await delay(lease.leaseMs / 8)
    lease.assertHeld()
    const inner = await a.using(name, {}, ({ fencingToken }) => fencingToken)
    check(inner === lease.fencingToken, 'an inner call did not join the lease')
    const outcome = await b.tryAcquire(name)
    check(outcome.status === 'taken', `a resource in use is ${outcome.status}`)
    return 'done'
  })
  check(result === 'done', 'the result of the routine is lost')
  await (await acquired(b, name)).release()
}

async function limits({ a, resource }: Clients): Promise<void> {
  const lease = await acquired(a, resource(), { maxExtensions: 1 })
  await lease.extend()
  const outcome = await lease.extend()
  check(outcome.status === 'limit', `an extension beyond its limit is ${outcome.status}`)
  await lease.release()
}

async function handOver({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  if (a.handOver === undefined) return
  let lease = await acquired(a, name)
  for (let round = 0; round < 5; round++) {
    const trusted = lease.trustedUntil
    const next = a.handOver(lease)
    // A service may decline at any time; then nothing has happened.
    if (next === undefined) {
      lease.assertHeld()
      break
    }
    const other = await b.tryAcquire(name)
    check(other.status !== 'granted', 'another client was granted during a hand-over')
    check(next.trustedUntil <= trusted, 'a hand-over lengthened the trust')
    check(next.fencingToken > lease.fencingToken, 'the successor has no larger fencing token')
    check(lease.remainingMs() === 0, 'the predecessor still counts as held')
    await lease.release()
    lease = next
    lease.assertHeld()
  }
  await lease.extend()
  const refused = await b.tryAcquire(name)
  check(refused.status === 'taken', `a resource that was handed over is ${refused.status}`)
  await lease.release()
  await (await acquired(b, name)).release()
}

async function slots({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const one = await acquired(a, name, { slots: 2 })
  const two = await acquired(b, name, { slots: 2 })
  const third = await a.tryAcquire(name, { slots: 2 })
  check(third.status === 'taken', `a third holder of two slots is ${third.status}`)
  await one.release()
  await (await acquired(b, name, { slots: 2 })).release()
  await two.release()
}

async function contention({ a, b, resource }: Clients): Promise<void> {
  const names = [resource(), resource()]
  let last = 0
  const contend = async (index: number): Promise<void> => {
    for (let round = 0; round < 4; round++) {
      const some = index % 3 === 0 ? names : names.slice(0, 1)
      const lease = await (index % 2 === 0 ? a : b).acquire(some, { waitMs: 60_000 })
      const { fencingToken } = lease
      check(fencingToken > last, `the fencing token ${fencingToken} follows ${last}`)
      last = fencingToken
      await lease.release()
    }
  }
  await Promise.all(Array.from({ length: 12 }, (_, index) => contend(index)))
}

async function inspection({ a, resource }: Clients): Promise<void> {
  if (a.inspect === undefined) return
  const name = resource()
  const lease = await acquired(a, name)
  const seen = await a.inspect(name)
  check(seen.holder?.fencingToken === lease.fencingToken, 'the holder has another fencing token')
  check(!JSON.stringify(seen).includes(lease.token), 'the token is shown, which is secret')
  await lease.release()
  check((await a.inspect(name)).holder === undefined, 'a released resource has a holder')
}

async function closing({ a, b, resource }: Clients): Promise<void> {
  const name = resource()
  const lease = await acquired(a, name, { autoExtend: true })
  await a.close()
  check(lease.signal.aborted, 'close did not abort a lease that was held')
  await rejects('tryAcquire after close', () => a.tryAcquire(name))
  const next = await b.acquire(name, { waitMs: lease.leaseMs / 2 })
  check(next.fencingToken > lease.fencingToken, 'the fencing token after close is not larger')
  await next.release()
}

function check(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Error(problem)
}

/** Contenders may have split the votes a moment ago: a free resource is granted soon. */
async function acquired(
  client: LockService,
  name: string,
  options: LeaseOptions = {},
): Promise<Lease> {
  return client.acquire(name, { ...options, waitMs: client.leaseMs / 2 })
}

async function released(acquiring: Promise<Lease>): Promise<Lease> {
  const lease = await acquiring
  await lease.release()
  return lease
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

async function rejects(what: string, call: () => Promise<unknown>): Promise<void> {
  const error = await call().then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  check(error !== undefined, `${what} did not throw`)
}
