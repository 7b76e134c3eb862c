/** One master's answer to one question, read from a script's reply. Anything unexpected is no vote. */
import type { CallResult } from '../../redis/master.ts'
import type { VoteOutcome } from '../../telemetry/lock-observer.ts'

/** A master that gave no answer to the question, and why. */
export interface FailedVote {
  readonly kind: 'failed'
  readonly reason: 'not-ready' | 'timeout' | 'closed' | 'error' | 'malformed' | 'unenrolled'
  readonly detail: string
  /** The script may have run, or may still run, on the master. */
  readonly mayHaveRun: boolean
}

export type AcquireVote =
  | FailedVote
  | { readonly kind: 'granted'; readonly counter: number }
  | { readonly kind: 'taken'; readonly holder: string; readonly ttlMs: number }
  | { readonly kind: 'quarantined'; readonly waitMs: number }
  | { readonly kind: 'skewed'; readonly aheadMs: number }
  | { readonly kind: 'abandoned' }
  /** Its clock jumped a while ago, so that it may have dropped leases before their time. */
  | { readonly kind: 'suspended'; readonly waitMs: number }

export type ConfirmVote =
  FailedVote | { readonly kind: 'counter'; readonly counter: number } | { readonly kind: 'lost' }

export type ExtendVote =
  | FailedVote
  | { readonly kind: 'extended' }
  /** It has the key, given back after it had lost its memory, and does not vote before its quarantine is over. */
  | { readonly kind: 'healed' }
  | { readonly kind: 'missing' }
  | { readonly kind: 'lost'; readonly holder: string }

export type HealVote =
  | FailedVote
  | { readonly kind: 'healed' }
  | { readonly kind: 'abandoned' }
  | { readonly kind: 'lost'; readonly holder: string }

export type ReleaseVote = FailedVote | { readonly kind: 'released' }

export type Vote = AcquireVote | ConfirmVote | ExtendVote | HealVote | ReleaseVote

/** The vote in one word, for metrics. */
export function outcomeOf(vote: Vote): VoteOutcome {
  return vote.kind === 'failed' ? vote.reason : vote.kind
}

/** Stands in a reply in place of a holder: the resource is free, and kept for those who are next. */
export const RESERVED = 'reserved@those who waited longer'

type Fields = readonly unknown[]
const malformed = (reply: unknown): FailedVote => ({
  kind: 'failed',
  reason: 'malformed',
  detail: `unexpected reply ${JSON.stringify(reply)}`.slice(0, 200),
  mayHaveRun: true,
})

/**
 * Turns a call's result (a word, and what belongs to it) into a vote; a bare number, the usual reply, is read by whoever calls this;
 * `parse` returns undefined for a reply it does not know.
 */
function read<V extends Vote>(
  result: CallResult,
  parse: (word: unknown, fields: Fields) => V | undefined,
): V | FailedVote {
  if (!result.ok) return { kind: 'failed', ...withoutOk(result) }
  if (!Array.isArray(result.reply)) return malformed(result.reply)
  const [word, ...fields] = result.reply as unknown[]
  if (word === 'unenrolled') {
    const detail = 'the server restarted or lost its data since this connection enrolled it'
    return { kind: 'failed', reason: 'unenrolled', detail, mayHaveRun: false }
  }
  return parse(word, fields) ?? malformed(result.reply)
}

function withoutOk(result: Extract<CallResult, { ok: false }>): Omit<FailedVote, 'kind'> {
  return { reason: result.reason, detail: result.detail, mayHaveRun: result.mayHaveRun }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value)

/** No lease lasts longer than `maxLeaseMs`, whatever a master says whose clock was set back. */
export function readAcquireVote(result: CallResult, maxLeaseMs: number): AcquireVote {
  if (result.ok && isCount(result.reply)) return { kind: 'granted', counter: result.reply }
  return read<AcquireVote>(result, (word, [first, second]) => {
    if (word === 'taken' && typeof first === 'string' && isCount(second)) {
      return { kind: 'taken', holder: first, ttlMs: Math.min(second, maxLeaseMs) }
    }
    if (word === 'quarantined' && isCount(first)) return { kind: 'quarantined', waitMs: first }
    if (word === 'skewed' && isCount(first)) return { kind: 'skewed', aheadMs: first }
    return word === 'abandoned' ? { kind: 'abandoned' } : undefined
  })
}

export function readConfirmVote(result: CallResult): ConfirmVote {
  return read<ConfirmVote>(result, (word, [first]) => {
    if (word === 'counter' && isCount(first)) return { kind: 'counter', counter: first }
    return word === 'lost' ? { kind: 'lost' } : undefined
  })
}

export function readExtendVote(result: CallResult): ExtendVote {
  return read<ExtendVote>(result, (word, [first]) => {
    if (word === 'extended' || word === 'healed' || word === 'missing') return { kind: word }
    return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
  })
}

export function readHealVote(result: CallResult): HealVote {
  return read<HealVote>(result, (word, [first]) => {
    if (word === 'healed' || word === 'abandoned') return { kind: word }
    return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
  })
}

export function readReleaseVote(result: CallResult): ReleaseVote {
  if (result.ok && isCount(result.reply)) return { kind: 'released' }
  return read<ReleaseVote>(result, () => undefined)
}

/** The vote in words, for errors and logs. */
export function describeVote(vote: Vote | undefined): string {
  if (vote === undefined) return 'no answer yet'
  switch (vote.kind) {
    case 'failed':
      return vote.reason === 'error' ? vote.detail : `${vote.reason}: ${vote.detail}`
    case 'taken':
      return `taken by ${describeToken(vote.holder)} for ${vote.ttlMs} ms`
    case 'quarantined':
      return `quarantined for ${vote.waitMs} ms (it may have lost leases; see "delayed restart")`
    case 'suspended':
      return `its clock jumped; not counted for another ${vote.waitMs} ms`
    case 'skewed':
      return `refused: this client's clock is ${vote.aheadMs} ms ahead of the master's`
    case 'lost':
      return 'holder' in vote && vote.holder !== ''
        ? `held by ${describeToken(vote.holder)}`
        : 'lost'
    default:
      return vote.kind
  }
}

/** A token without most of its secret: the owner, and enough to tell two leases of one owner apart. */
export function describeToken(token: string): string {
  const at = token.indexOf('@')
  return at < 0 ? `${token.slice(0, 6)}…` : `${token.slice(at + 1)} (${token.slice(0, 6)}…)`
}
