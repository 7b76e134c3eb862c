/** Renews a lease on a quorum of its masters, and gives its keys back to masters that lost them. */
import type { Instant } from '../clock.ts'
import type { Renewed } from '../lock/held-lease.ts'
import type { Lease } from '../lock/lease.ts'
import { trustFrom } from '../lock/trust.ts'
import type { Attempt } from './attempt.ts'
import { answersOf } from './explain.ts'
import { Poll, voteOf } from './poll.ts'
import type { Vote } from './verbs.ts'
import { callOf } from './wire/calls.ts'
import { callMaster, type Master } from './wire/master.ts'

/** @param leftMs of the trust, at `startedAt`. */
export async function extendLease(
  attempt: Attempt,
  lease: Pick<Lease, 'remainingMs'>,
  startedAt: Instant,
  leftMs: number,
): Promise<Renewed> {
  const { fleet, resources, token, terms, fencingToken: fence } = attempt
  const { driftFactor, masterTimeoutMs } = fleet.settings
  const timeoutMs = Math.max(1, Math.min(masterTimeoutMs, leftMs))
  const call = callOf({ verb: 'extend', resources, token, fence, leaseMs: terms.leaseMs })
  const poll = new Poll(attempt, 'extend', call, timeoutMs)
  const tried = new Set<Master>()
  const healMissing = (): void => {
    for (const master of fleet.masters) {
      const isMissing = poll.votes[master.index]?.kind === 'missing'
      if (!isMissing || tried.has(master) || lease.remainingMs() <= 0) continue
      tried.add(master)
      fleet.inBackground(healMaster(attempt, master))
    }
  }
  await poll.decided
  // rule: heal-only-after-a-quorum
  if (poll.verdict === 'against') {
    await poll.complete
    return notExtended(attempt, poll.votes)
  }
  healMissing()
  fleet.inBackground(poll.complete.then(healMissing))
  return { status: 'extended', trust: trustFrom(startedAt, terms.leaseMs, driftFactor) }
}

function notExtended({ fleet }: Attempt, votes: readonly (Vote | undefined)[]): Renewed {
  const answers = answersOf(fleet.names, votes)
  const gone = votes.filter((vote) => vote?.kind === 'missing' || vote?.kind === 'lost').length
  return gone > votes.length - fleet.quorum
    ? { status: 'gone', reason: 'a majority of the masters no longer has it', answers }
    : { status: 'unreachable', answers }
}

async function healMaster(attempt: Attempt, master: Master): Promise<void> {
  const { fleet, resources, token, terms, fencingToken: fence } = attempt
  const { clock, masterTimeoutMs } = fleet.settings
  const healing = (attempt.healing ??= new Set())
  healing.add(master)
  const call = callOf({ verb: 'heal', resources, token, fence, leaseMs: terms.leaseMs })
  const vote = voteOf('heal', await callMaster(master, clock, call, masterTimeoutMs), attempt)
  fleet.voted(master, 'heal', vote)
  if (vote.kind !== 'failed' || !vote.mayHaveRun) healing.delete(master)
}
