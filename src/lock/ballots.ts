/**
 * The questions that are put to the fleet, one function each: which script, which keys, which
 * arguments, and what counts as a vote for.
 */
import { sleep } from '../clock.ts'
import type { CallResult, Master } from '../redis/master.ts'
import type { Script } from '../redis/script.ts'
import type { Fleet } from './fleet.ts'
import { outcomeOf, type Question as Asked } from './observer.ts'
import { poll, type Poll } from './poll.ts'
import { acquireScript, confirmScript, extendScript, healScript, releaseScript } from './scripts.ts'
import { instant, type Instant } from './trust.ts'
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
  type Vote,
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

/** What all masters are asked, but for the run id. */
interface Question {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: Args
  readonly askedAt: Instant
}

function question(fleet: Fleet, script: Script, claim: Claim, args: Args): Question {
  const { keys, settings } = fleet
  const named = [keys.master, keys.tombstone(claim.token)]
  for (const resource of claim.resources) {
    named.push(keys.lease(resource), keys.fence(resource), keys.waiters(resource))
  }
  const all = [settings.maxLeaseMs, ...args]
  return { script, keys: named, args: all, askedAt: instant(settings.clock) }
}

export function pollAcquire(
  fleet: Fleet,
  claim: Claim,
  { leaseMs, waitMs, predecessor }: Request,
  proposal: number,
): Poll<AcquireVote> {
  const { fenceTtlMs, maxClockSkewMs, maxLeaseMs, masterTimeoutMs } = fleet.settings
  const from = [predecessor?.token ?? '', predecessor?.fencingToken ?? 0]
  const args = [claim.token, leaseMs, proposal, fenceTtlMs, maxClockSkewMs, ...from, waitMs]
  const asked = question(fleet, acquireScript, claim, args)
  // An answer that comes after the lease would be over is none.
  const timeoutMs = Math.min(masterTimeoutMs, leaseMs)
  const ask = async (master: Master): Promise<AcquireVote> => {
    if (fleet.suspendedMs(master) > 0) return suspended(fleet, master)
    const result = await askEnrolled(fleet, master, asked, timeoutMs)
    // This very reply may have shown that the master's clock jumped.
    return fleet.suspendedMs(master) > 0
      ? suspended(fleet, master)
      : readAcquireVote(result, maxLeaseMs)
  }
  return poll(fleet.masters, ask, (vote) => vote.kind === 'granted', heard(fleet, 'acquire'))
}

function heard({ observer }: Fleet, question: Asked): (master: Master, vote: Vote) => void {
  return ({ name }, vote) => {
    observer.voted(name, question, outcomeOf(vote))
  }
}

function suspended(fleet: Fleet, master: Master): AcquireVote {
  return { kind: 'suspended', waitMs: fleet.suspendedMs(master) }
}

/** A master counts only if its counter is exactly `fencingToken`: beyond it, somebody else was granted. */
export function pollConfirm(fleet: Fleet, claim: Claim, fencingToken: number): Poll<ConfirmVote> {
  const { fenceTtlMs, masterTimeoutMs } = fleet.settings
  const args = [claim.token, fencingToken, fenceTtlMs]
  const asked = question(fleet, confirmScript, claim, args)
  return poll(
    fleet.masters,
    async (master) => readConfirmVote(await askEnrolled(fleet, master, asked, masterTimeoutMs)),
    (vote) => vote.kind === 'counter' && vote.counter === fencingToken,
    heard(fleet, 'confirm'),
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
  const asked = question(fleet, extendScript, claim, args)
  return poll(
    fleet.masters,
    async (master) => readExtendVote(await askEnrolled(fleet, master, asked, timeoutMs)),
    (vote) => vote.kind === 'extended',
    heard(fleet, 'extend'),
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
  const asked = question(fleet, healScript, claim, args)
  const vote = readHealVote(await askEnrolled(fleet, master, asked, masterTimeoutMs))
  heard(fleet, 'heal')(master, vote)
  return vote
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
  const { masterTimeoutMs } = fleet.settings
  const keys = releaseKeys(fleet, claim)
  return poll(
    fleet.masters,
    async (master, index) => {
      const vote = await release(fleet, master, claim, keys, unsettled(index), masterTimeoutMs)
      if (vote.kind === 'failed') background(releaseLater(fleet, master, claim, leaseMs))
      return vote
    },
    (vote) => vote.kind === 'released',
    heard(fleet, 'release'),
  )
}

function releaseKeys({ keys }: Fleet, { resources, token }: Claim): readonly string[] {
  const named = [keys.tombstone(token)]
  for (const resource of resources) named.push(keys.lease(resource), keys.waiters(resource))
  return named
}

async function release(
  fleet: Fleet,
  master: Master,
  { resources, token }: Claim,
  keys: readonly string[],
  buried: boolean,
  timeoutMs: number,
): Promise<ReleaseVote> {
  const tombstoneMs = buried ? TOMBSTONE_LEASES * fleet.settings.maxLeaseMs : 0
  const args = [token, tombstoneMs, fleet.keys.releases, ...resources]
  return readReleaseVote(await master.call(releaseScript, keys, args, timeoutMs))
}

/** The key is gone at the latest when the lease would have ended, so that bounds the effort. */
async function releaseLater(
  fleet: Fleet,
  master: Master,
  claim: Claim,
  leaseMs: number,
): Promise<void> {
  const { clock } = fleet.settings
  const keys = releaseKeys(fleet, claim)
  const until = clock.now() + leaseMs
  for (let tries = 0; tries < MAX_RELEASE_TRIES; tries++) {
    const leftMs = until - clock.now()
    if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return
    const timeoutMs = Math.max(1, until - clock.now())
    const vote = await release(fleet, master, claim, keys, true, timeoutMs)
    if (vote.kind !== 'failed') return
    await sleep(clock, RELEASE_RETRY_MS)
  }
}

/** A call whose script first checks that this very server process was enrolled by this connection. */
async function askEnrolled(
  fleet: Fleet,
  master: Master,
  { script, keys, args, askedAt }: Question,
  timeoutMs: number,
): Promise<CallResult> {
  const result = await master.call(script, keys, [master.runId, ...args], timeoutMs)
  if (result.ok && Array.isArray(result.reply)) {
    const [word, serverMs] = result.reply as unknown[]
    if (typeof serverMs === 'number') fleet.observeClock(master, serverMs, askedAt)
    if (word === 'unenrolled') {
      master.reenrol('its enrolment is gone: it restarted or lost its data')
    }
  }
  return result
}
