/**
 * The questions that are put to the fleet, one function each: which script, which keys, which
 * arguments, and what counts as a vote for.
 */
import { sleep } from '../clock.ts'
import type { CallResult, Master } from '../redis/master.ts'
import type { Script } from '../redis/script.ts'
import type { Fleet } from './fleet.ts'
import { poll, type Poll } from './poll.ts'
import { acquireScript, confirmScript, extendScript, healScript, releaseScript } from './scripts.ts'
import { instant } from './trust.ts'
import {
  readAcquireVote,
  readConfirmVote,
  readExtendVote,
  readHealVote,
  readReleaseVote,
  type AcquireVote,
  type ConfirmVote,
  type ExtendVote,
  type HealVote,
  type ReleaseVote,
} from './votes.ts'

/** What an attempt puts on the masters. The token is fresh for every attempt. */
export interface Claim {
  /** Sorted, without repetitions: all or none are granted, with one token and one fencing token. */
  readonly resources: readonly string[]
  readonly token: string
}

/** A lease that its holder has given up in favour of the next one: the other half of a hand over. */
export interface Predecessor {
  readonly token: string
  readonly fencingToken: number
}

/** What an attempt asks for. */
export interface Request {
  readonly leaseMs: number
  /** The caller goes on waiting this long when it is not granted: releases are announced to it. */
  readonly waitMs: number
  readonly predecessor?: Predecessor
}

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

type Args = readonly (string | number)[]

export function pollAcquire(
  fleet: Fleet,
  claim: Claim,
  { leaseMs, waitMs, predecessor }: Request,
  proposal: number,
): Poll<AcquireVote> {
  const { fenceTtlMs, maxClockSkewMs, maxLeaseMs, masterTimeoutMs } = fleet.settings
  const from = [predecessor?.token ?? '', predecessor?.fencingToken ?? 0]
  const args = [claim.token, leaseMs, proposal, fenceTtlMs, maxClockSkewMs, ...from, waitMs]
  // An answer that comes after the lease would be over is none.
  const timeoutMs = Math.min(masterTimeoutMs, leaseMs)
  const ask = async (master: Master): Promise<AcquireVote> => {
    if (fleet.suspendedMs(master) > 0) return suspended(fleet, master)
    const result = await callEnrolled(fleet, master, acquireScript, claim, args, timeoutMs)
    // This very reply may have shown that the master's clock jumped.
    return fleet.suspendedMs(master) > 0
      ? suspended(fleet, master)
      : readAcquireVote(result, maxLeaseMs)
  }
  return poll(fleet.masters, ask, (vote) => vote.kind === 'granted')
}

function suspended(fleet: Fleet, master: Master): AcquireVote {
  return { kind: 'suspended', waitMs: fleet.suspendedMs(master) }
}

/** A master counts only if its counter is exactly `fencingToken`: beyond it, somebody else was granted. */
export function pollConfirm(fleet: Fleet, claim: Claim, fencingToken: number): Poll<ConfirmVote> {
  const { fenceTtlMs, masterTimeoutMs } = fleet.settings
  const args = [claim.token, fencingToken, fenceTtlMs]
  return poll(
    fleet.masters,
    async (master) =>
      readConfirmVote(
        await callEnrolled(fleet, master, confirmScript, claim, args, masterTimeoutMs),
      ),
    (vote) => vote.kind === 'counter' && vote.counter === fencingToken,
  )
}

export function pollExtend(
  fleet: Fleet,
  claim: Claim,
  fencingToken: number,
  leaseMs: number,
  timeoutMs: number,
): Poll<ExtendVote> {
  const args = [claim.token, leaseMs, fencingToken, fleet.settings.fenceTtlMs]
  return poll(
    fleet.masters,
    async (master) =>
      readExtendVote(await callEnrolled(fleet, master, extendScript, claim, args, timeoutMs)),
    (vote) => vote.kind === 'extended',
  )
}

export async function heal(
  fleet: Fleet,
  master: Master,
  claim: Claim,
  fencingToken: number,
  leaseMs: number,
): Promise<HealVote> {
  const { fenceTtlMs, masterTimeoutMs } = fleet.settings
  const args = [claim.token, leaseMs, fencingToken, fenceTtlMs]
  return readHealVote(await callEnrolled(fleet, master, healScript, claim, args, masterTimeoutMs))
}

/**
 * Asks **every** master to delete the claim's keys, whatever it answered before. Where `unsettled`
 * says that a grant or heal may still arrive, the master also refuses the token from now on. A master
 * that does not confirm is asked again in the background when it is back, for one lease at most.
 */
export function pollRelease(
  fleet: Fleet,
  claim: Claim,
  leaseMs: number,
  unsettled: (index: number) => boolean,
  background: (work: Promise<void>) => void,
): Poll<ReleaseVote> {
  return poll(
    fleet.masters,
    async (master, index) => {
      const tombstoneMs = unsettled(index) ? TOMBSTONE_LEASES * fleet.settings.maxLeaseMs : 0
      const vote = await release(fleet, master, claim, tombstoneMs, fleet.settings.masterTimeoutMs)
      if (vote.kind === 'failed') background(releaseLater(fleet, master, claim, leaseMs))
      return vote
    },
    (vote) => vote.kind === 'released',
  )
}

async function release(
  { keys }: Fleet,
  master: Master,
  { resources, token }: Claim,
  tombstoneMs: number,
  timeoutMs: number,
): Promise<ReleaseVote> {
  const named = resources.flatMap((resource) => [keys.lease(resource), keys.waiters(resource)])
  const args = [token, tombstoneMs, keys.releases, ...resources]
  return readReleaseVote(
    await master.call(releaseScript, [keys.tombstone(token), ...named], args, timeoutMs),
  )
}

/** The key is gone at the latest when the lease would have ended, so that bounds the effort. */
async function releaseLater(
  fleet: Fleet,
  master: Master,
  claim: Claim,
  leaseMs: number,
): Promise<void> {
  const { clock, maxLeaseMs } = fleet.settings
  const until = clock.now() + leaseMs
  for (let tries = 0; tries < MAX_RELEASE_TRIES; tries++) {
    const leftMs = until - clock.now()
    if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return
    const timeoutMs = Math.max(1, until - clock.now())
    const vote = await release(fleet, master, claim, TOMBSTONE_LEASES * maxLeaseMs, timeoutMs)
    if (vote.kind !== 'failed') return
    await sleep(clock, RELEASE_RETRY_MS)
  }
}

/** A call whose script first checks that this very server process was enrolled by this connection. */
async function callEnrolled(
  fleet: Fleet,
  master: Master,
  script: Script,
  claim: Claim,
  args: Args,
  timeoutMs: number,
): Promise<CallResult> {
  const { keys, settings } = fleet
  const named = claim.resources.flatMap((resource) => [
    keys.lease(resource),
    keys.fence(resource),
    keys.waiters(resource),
  ])
  const before = instant(settings.clock)
  const result = await master.call(
    script,
    [keys.master, keys.tombstone(claim.token), ...named],
    [master.runId, settings.maxLeaseMs, ...args],
    timeoutMs,
  )
  if (result.ok && Array.isArray(result.reply)) {
    const [word, serverMs] = result.reply as unknown[]
    if (typeof serverMs === 'number') fleet.observeClock(master, serverMs, before)
    if (word === 'unenrolled') {
      master.reenrol('its enrolment is gone: it restarted or lost its data')
    }
  }
  return result
}
