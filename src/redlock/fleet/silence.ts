/** Why a master does not vote now, and until when where that is known: one list of all reasons. */
import { describeState, type Master, type Refusal } from '../wire/master.ts'
import type { ClockWatch } from './clock-watch.ts'
import type { Quarantines } from './quarantines.ts'
import type { Refusals } from './refusals.ts'

export type Silence = {
  /** For people: why, and what to do. */
  readonly reason: string
} & (
  | ({ readonly state: 'refused' } & Refusal)
  | { readonly state: 'connecting' | 'enrolling'; readonly detail: string }
  | { readonly state: 'closed' }
  | { readonly state: 'suspended' | 'quarantined'; readonly votesInMs: number }
)

interface SilenceFacts {
  readonly refusals: Pick<Refusals, 'of'>
  readonly clocks: Pick<ClockWatch, 'suspendedMs' | 'isOutOfLine'>
  readonly quarantines: Pick<Quarantines, 'leftMs'>
}

/** The first reason; undefined where the master votes. */
export function silenceOf(
  master: Master,
  { refusals, clocks, quarantines }: SilenceFacts,
): Silence | undefined {
  const { state } = master
  const refusal = state.status === 'refused' ? state : refusals.of(master)
  if (refusal !== undefined) {
    return { ...refusal, state: 'refused', reason: `${refusal.problem}; ${refusal.fix}` }
  }
  const reason = describeState(state)
  if (state.status === 'connecting' || state.status === 'enrolling') {
    return { state: state.status, reason, detail: state.detail }
  }
  if (state.status === 'closed') return { state: 'closed', reason }
  const suspendedMs = clocks.suspendedMs(master)
  if (suspendedMs > 0) {
    const why = clocks.isOutOfLine(master)
      ? 'its clock is far from those of the other masters: check NTP'
      : `its clock jumped; not counted for another ${suspendedMs} ms: check NTP`
    return { state: 'suspended', reason: why, votesInMs: suspendedMs }
  }
  const leftMs = quarantines.leftMs(master)
  if (leftMs <= 0) return undefined
  const why = `new or restarted: grants nothing for another ${leftMs} ms`
  return { state: 'quarantined', reason: why, votesInMs: leftMs }
}
