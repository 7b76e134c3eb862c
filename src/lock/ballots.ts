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
  readonly resource: string
  readonly token: string
}

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

export function pollAcquire(
  fleet: Fleet,
  claim: Claim,
  leaseMs: number,
  proposal: number,
): Poll<AcquireVote> {
  const { fenceTtlMs, maxClockSkewMs, masterTimeoutMs } = fleet.settings
  return poll(
    fleet.masters,
    async (master) =>
      readAcquireVote(
        await callEnrolled(
          fleet,
          master,
          acquireScript,
          keysOf(fleet, claim, 'withTombstone'),
          [claim.token, leaseMs, proposal, fenceTtlMs, maxClockSkewMs],
          masterTimeoutMs,
        ),
      ),
    (vote) => vote.kind === 'granted',
  )
}

/** A master counts only if its counter is exactly `fencingToken`: beyond it, somebody else was granted. */
export function pollConfirm(fleet: Fleet, claim: Claim, fencingToken: number): Poll<ConfirmVote> {
  const { fenceTtlMs, masterTimeoutMs } = fleet.settings
  return poll(
    fleet.masters,
    async (master) =>
      readConfirmVote(
        await callEnrolled(
          fleet,
          master,
          confirmScript,
          keysOf(fleet, claim),
          [claim.token, fencingToken, fenceTtlMs],
          masterTimeoutMs,
        ),
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
  return poll(
    fleet.masters,
    async (master) =>
      readExtendVote(
        await callEnrolled(
          fleet,
          master,
          extendScript,
          keysOf(fleet, claim),
          [claim.token, leaseMs, fencingToken, fleet.settings.fenceTtlMs],
          timeoutMs,
        ),
      ),
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
  return readHealVote(
    await callEnrolled(
      fleet,
      master,
      healScript,
      keysOf(fleet, claim, 'withTombstone'),
      [claim.token, leaseMs, fencingToken, fenceTtlMs],
      masterTimeoutMs,
    ),
  )
}

/**
 * Asks **every** master to delete the claim's key, whatever it answered before. Where `unsettled`
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
    (vote) => vote.kind !== 'failed',
  )
}

async function release(
  fleet: Fleet,
  master: Master,
  claim: Claim,
  tombstoneMs: number,
  timeoutMs: number,
): Promise<ReleaseVote> {
  const keys = [fleet.keys.lease(claim.resource), fleet.keys.tombstone(claim.token)]
  return readReleaseVote(
    await master.call(releaseScript, keys, [claim.token, tombstoneMs], timeoutMs),
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

function keysOf(fleet: Fleet, claim: Claim, tombstone?: 'withTombstone'): readonly string[] {
  const { keys } = fleet
  const common = [keys.master, keys.lease(claim.resource), keys.fence(claim.resource)]
  return tombstone === undefined ? common : [...common, keys.tombstone(claim.token)]
}

/** A call whose script first checks that this very server process was enrolled by this connection. */
async function callEnrolled(
  fleet: Fleet,
  master: Master,
  script: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
  timeoutMs: number,
): Promise<CallResult> {
  const enrolment = [master.runId, fleet.settings.maxLeaseMs]
  const result = await master.call(script, keys, [...enrolment, ...args], timeoutMs)
  if (result.ok && Array.isArray(result.reply) && result.reply[0] === 'unenrolled') {
    master.reenrol('its enrolment is gone: it restarted or lost its data')
  }
  return result
}
