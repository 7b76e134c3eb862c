/** Deletes the keys of an attempt on every master that may have one, now or later. */
import { sleep } from '../clock.ts'
import type { Attempt } from './attempt.ts'
import { Poll, voteOf } from './poll.ts'
import { callOf, type Call } from './wire/calls.ts'
import { callMaster, type Master } from './wire/master.ts'

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_TRIES = 5
const RETRY_MS = 25

/**
 * @param graceMs how long the resource is reserved for the next waiter.
 * @param waiter by what name the holder may have waited.
 */
export function releaseEverywhere(attempt: Attempt, graceMs = 0, waiter = ''): Poll {
  const { fleet, resources, token } = attempt
  const call = callOf({ verb: 'release', resources, token, waitMs: graceMs, waiter })
  attempt.releaseCall = call
  return new Poll(attempt, 'release', call, fleet.settings.masterTimeoutMs, releaseOn)
}

/** The same, and from now on the master refuses the token. */
function forGood({ maxLeaseMs }: Attempt, { asked }: Call): Call {
  return callOf({ ...asked, leaseMs: TOMBSTONE_LEASES * maxLeaseMs })
}

/**
 * Asks a master again that did not confirm, when it votes again. A server that stood still may
 * grant only then what it was asked before, for as long as a lease lives.
 */
export async function releaseLater(attempt: Attempt, master: Master): Promise<void> {
  const { fleet, terms, releaseCall } = attempt
  // While a master is away this is most of what the client has on its hands.
  if (releaseCall === undefined || !releaseOn(attempt, master, releaseCall, '')) return
  const { clock } = fleet.settings
  const call = forGood(attempt, releaseCall)
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    // rule: release-waits-for-its-master
    if (!(await master.enrolment.whenEnrolled())) return
    const vote = voteOf('release', await callMaster(master, clock, call, terms.leaseMs), attempt)
    if (vote.kind !== 'failed') return
    await sleep(clock, RETRY_MS)
  }
}

/**
 * What leaves for a master now; undefined where it has nothing to delete. That is where another
 * token had the resource, or the question never ran, and no key was given back. A master may still
 * grant or heal after the release, if it gave no answer, or none that says the script did not run,
 * and has another connection now: it refuses the token for good. On the same connection the release
 * comes behind the question, because a server runs in order what arrives on one.
 */
function releaseOn(
  attempt: Attempt,
  master: Master,
  call: Call,
  waiter: string = call.asked.waiter ?? '',
): Call | undefined {
  const { healing, votes, states } = attempt
  const vote = votes?.[master.index]
  const mayHaveRun = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
  // rule: tombstone-behind-another-connection
  const isBehind = mayHaveRun && master.state !== states[master.index]
  if (isBehind || healing?.has(master) === true) return forGood(attempt, call)
  const keptNone = !mayHaveRun && (vote.kind === 'failed' || vote.kind === 'taken')
  if (keptNone && healing === undefined && waiter === '') return undefined
  // rule: release-on-every-master
  return call
}
