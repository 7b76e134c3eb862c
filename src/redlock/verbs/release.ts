/** Deletes the keys of an attempt on every master, whatever each of them answered before. */
import { sleep } from '../../clock.ts'
import { callOf, type Call, USUAL, type Procedure } from '../wire/batch.ts'
import { callMaster, type CallResult, type Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { isCount, readVote, type ReleaseVote } from './votes.ts'

const TRIPS_PER_TURN = 4
/** Processes are held up now and then for longer than their trips take. */
const MIN_TURN_MS = 50

/**
 * How long a named waiter has to acquire, before the next one tries too, and any other client may.
 */
export function turnMs(roundTripMs: number): number {
  return Math.ceil(Math.max(MIN_TURN_MS, TRIPS_PER_TURN * roundTripMs))
}

/** `lua/release.lua`, and `lua/release-usual.lua` for a usual call. */
export const releaseProcedure: Procedure = {
  name: 'release',
  short: {
    letter: 'R',
    parameters: 5,
    usualReply: () => 1,
  },
}

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

/** What is released, and what its holder knows of the masters. */
export interface ReleaseTerms {
  readonly attempt: Attempt
  /**
   * Whether a grant or a heal may still arrive at a master: then it refuses the token from now on.
   */
  readonly isUnsettled: (index: number) => boolean
  /** How long the resource is reserved for the next waiter. */
  readonly graceMs: number
  /** By what name the holder may have waited; '' for none. */
  readonly waiter: string
}

const RELEASED: ReleaseVote = { kind: 'released' }

/** A master that does not confirm is asked again in the background, for one lease at most. */
export class Release implements Verb<ReleaseVote> {
  readonly question = 'release'
  readonly timeoutMs: number
  readonly #fleet: LockFleet
  readonly #terms: ReleaseTerms
  readonly #call: Call
  #callForGood: Call | undefined

  constructor(fleet: LockFleet, terms: ReleaseTerms) {
    this.timeoutMs = fleet.settings.masterTimeoutMs
    this.#fleet = fleet
    this.#terms = terms
    this.#call = releaseCall(terms, 0)
  }

  ask(_master: Master, index: number): Call {
    // rule: release-on-every-master
    return this.#terms.isUnsettled(index) ? this.#forGood : this.#call
  }

  read(master: Master, result: CallResult): ReleaseVote {
    const vote = readReleaseVote(result)
    if (vote.kind === 'failed') {
      const { leaseMs } = this.#terms.attempt
      this.#fleet.inBackground(releaseLater(this.#fleet, master, this.#forGood, leaseMs))
    }
    return vote
  }

  isFor({ kind }: ReleaseVote): boolean {
    return kind === 'released'
  }

  get #forGood(): Call {
    const { maxLeaseMs } = this.#fleet.settings
    return (this.#callForGood ??= releaseCall(this.#terms, TOMBSTONE_LEASES * maxLeaseMs))
  }
}

function releaseCall({ attempt, graceMs, waiter }: ReleaseTerms, tombstoneMs: number): Call {
  return callOf(releaseProcedure, [attempt.resources, attempt.token, tombstoneMs, graceMs, waiter])
}

/** The key is gone at the latest when the lease would have ended, so that bounds the effort. */
async function releaseLater(
  fleet: LockFleet,
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
    const vote = readReleaseVote(await callMaster(master, clock, call, timeoutMs))
    if (vote.kind !== 'failed') return
    await sleep(clock, RELEASE_RETRY_MS)
  }
}

function readReleaseVote(result: CallResult): ReleaseVote {
  if (result.ok && (result.reply === USUAL || isCount(result.reply))) return RELEASED
  return readVote<ReleaseVote>(result, () => undefined)
}
