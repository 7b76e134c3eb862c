/**
 * The questions that are put to the fleet, one function each: which script, which keys, which
 * arguments, and what counts as a vote for.
 */
import { sleep } from '../../clock.ts'
import { Call, type Argument, type Procedure } from '../../redis/batch.ts'
import type { CallResult, Master } from '../../redis/master.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { Question as Asked } from '../../telemetry/lock-observer.ts'
import { poll, type Poll } from '../quorum/poll.ts'
import {
  acquireProcedure,
  confirmProcedure,
  extendProcedure,
  healProcedure,
  releaseProcedure,
  withdrawProcedure,
} from './scripts.ts'
import { instant, type Instant } from '../../lock/trust.ts'
import {
  outcomeOf,
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
  /** What the masters have for it. */
  readonly counter: number
  /** Its place in the line passes on with it. */
  readonly waiter: string
}

/** What an attempt asks for. */
export interface Request {
  readonly leaseMs: number
  /** The caller goes on waiting this long when it is not granted: releases are announced to it. */
  readonly waitMs: number
  /** By what name it waits; '' for none. */
  readonly waiter: string
  readonly predecessor?: Predecessor
}

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

/** What a release means for the line of those who wait. */
interface Line {
  /** So long the resource is kept for the next of them. */
  readonly graceMs: number
  /** By what name the holder may have waited and have a place itself, which it leaves now; '' for none. */
  readonly waiter: string
}

const UNCHANGED: Line = { graceMs: 0, waiter: '' }

/** What is put to masters that this connection must have enrolled, and when. */
interface Inquiry {
  readonly call: Call
  readonly askedAt: Instant
}

function inquiry(
  { settings }: Fleet,
  procedure: Procedure,
  { resources, token }: Claim,
  ...more: readonly Argument[]
): Inquiry {
  const call = new Call(procedure, [resources, token, ...more])
  return { call, askedAt: instant(settings.clock) }
}

/** Of a master whose clock jumped. */
const NOT_ASKED = Promise.resolve<CallResult>({
  ok: false,
  ...{ reason: 'not-ready', detail: 'its clock jumped', mayHaveRun: false },
})

export function pollAcquire(
  fleet: Fleet,
  claim: Claim,
  { leaseMs, waitMs, waiter, predecessor }: Request,
  proposal: number,
): Poll<AcquireVote> {
  const { maxLeaseMs, masterTimeoutMs } = fleet.settings
  const terms = [leaseMs, String(proposal), waitMs, waiter]
  const from = predecessor && [predecessor.token, String(predecessor.counter)]
  const asked = inquiry(fleet, acquireProcedure, claim, ...terms, ...(from ?? []))
  // An answer that comes after the lease would be over is none.
  const timeoutMs = Math.min(masterTimeoutMs, leaseMs)
  return poll<AcquireVote>(fleet.masters, {
    ask: (master) =>
      fleet.suspendedMs(master) > 0 ? NOT_ASKED : master.call(asked.call, timeoutMs),
    read: (master, result) => {
      checkMaster(fleet, master, asked, result)
      // This very reply may have shown that the master's clock jumped.
      const waitMs = fleet.suspendedMs(master)
      return waitMs > 0 ? { kind: 'suspended', waitMs } : readAcquireVote(result, maxLeaseMs)
    },
    isFor: ({ kind }) => kind === 'granted',
    heard: heard(fleet, 'acquire'),
  })
}

function heard({ observer }: Fleet, question: Asked): (master: Master, vote: Vote) => void {
  return ({ name }, vote) => {
    observer.voted(name, question, outcomeOf(vote))
  }
}

/** A master counts only if its counter is exactly `fencingToken`: beyond it, somebody else was granted. */
export function pollConfirm(fleet: Fleet, claim: Claim, fencingToken: number): Poll<ConfirmVote> {
  const { masterTimeoutMs } = fleet.settings
  const asked = inquiry(fleet, confirmProcedure, claim, String(fencingToken))
  return poll<ConfirmVote>(fleet.masters, {
    ask: (master) => master.call(asked.call, masterTimeoutMs),
    read: (master, result) => readConfirmVote(checkMaster(fleet, master, asked, result)),
    isFor: (vote) => vote.kind === 'counter' && vote.counter === fencingToken,
    heard: heard(fleet, 'confirm'),
  })
}

export function pollExtend(
  fleet: Fleet,
  claim: Claim,
  counter: number,
  leaseMs: number,
  timeoutMs: number,
): Poll<ExtendVote> {
  const asked = inquiry(fleet, extendProcedure, claim, leaseMs, String(counter))
  return poll<ExtendVote>(fleet.masters, {
    ask: (master) => master.call(asked.call, timeoutMs),
    read: (master, result) => readExtendVote(checkMaster(fleet, master, asked, result)),
    isFor: ({ kind }) => kind === 'extended',
    heard: heard(fleet, 'extend'),
  })
}

export async function heal(
  fleet: Fleet,
  master: Master,
  claim: Claim,
  counter: number,
  leaseMs: number,
): Promise<HealVote> {
  const { masterTimeoutMs } = fleet.settings
  const asked = inquiry(fleet, healProcedure, claim, leaseMs, String(counter))
  const result = await master.call(asked.call, masterTimeoutMs)
  const vote = readHealVote(checkMaster(fleet, master, asked, result))
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
  { graceMs, waiter }: Line = UNCHANGED,
): Poll<ReleaseVote> {
  const { masterTimeoutMs, maxLeaseMs } = fleet.settings
  const { resources, token } = claim
  const line = waiter === '' ? [graceMs] : [graceMs, waiter]
  const leaving = (tombstoneMs: number): Call =>
    new Call(releaseProcedure, [resources, token, tombstoneMs, ...line])
  const release = leaving(0)
  const releaseForGood = leaving(TOMBSTONE_LEASES * maxLeaseMs)
  return poll<ReleaseVote>(fleet.masters, {
    ask: (master, index) =>
      master.call(unsettled(index) ? releaseForGood : release, masterTimeoutMs),
    read: (master, result) => {
      const vote = readReleaseVote(result)
      if (vote.kind === 'failed') background(releaseLater(fleet, master, releaseForGood, leaseMs))
      return vote
    },
    isFor: ({ kind }) => kind === 'released',
    heard: heard(fleet, 'release'),
  })
}

/** The key is gone at the latest when the lease would have ended, so that bounds the effort. */
async function releaseLater(
  fleet: Fleet,
  master: Master,
  call: Call,
  leaseMs: number,
): Promise<void> {
  const { clock } = fleet.settings
  const until = clock.now() + leaseMs
  for (let tries = 0; tries < MAX_RELEASE_TRIES; tries++) {
    const leftMs = until - clock.now()
    if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return
    const timeoutMs = Math.max(1, until - clock.now())
    const vote = readReleaseVote(await master.call(call, timeoutMs))
    if (vote.kind !== 'failed') return
    await sleep(clock, RELEASE_RETRY_MS)
  }
}

/** A waiter that gave up leaves its place; where that is not heard, its place ends by itself. */
export function withdraw(
  fleet: Fleet,
  resources: readonly string[],
  waiter: string,
): Promise<void> {
  const call = new Call(withdrawProcedure, [resources, waiter])
  const { masterTimeoutMs } = fleet.settings
  const answers = fleet.masters.map((master) => master.call(call, masterTimeoutMs))
  return Promise.all(answers).then(() => undefined)
}

/** What the answer of a script that checks the enrolment says about the master itself: its clock, and whether it restarted. */
function checkMaster(
  fleet: Fleet,
  master: Master,
  { askedAt }: Inquiry,
  result: CallResult,
): CallResult {
  if (!result.ok) return result
  const { reply, serverMs } = result
  if (Number.isFinite(serverMs)) fleet.observeClock(master, serverMs, askedAt)
  if (Array.isArray(reply) && reply[0] === 'unenrolled') {
    master.reenrol('its enrolment is gone: it restarted or lost its data')
  }
  return result
}
