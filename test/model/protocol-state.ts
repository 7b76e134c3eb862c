/**
 * A state of the model as a row of 32-bit words: one for each master, one for each of the two
 * attempts, one for what is left of the faults. Masters are interchangeable, so their words are
 * kept sorted.
 */

/** A run of bits in a word. */
export interface Field {
  readonly shift: number
  readonly mask: number
}

const field = (shift: number, bits: number): Field => ({ shift, mask: 2 ** bits - 1 })

/** The master's key: 0 free, else the attempt whose token it holds, counted from 1. */
export const HOLDER = field(0, 2)
export const COUNTER = field(2, 4)
/** Ticks until the key expires, and until the master may grant; only with a clock. */
export const TTL = field(6, 2)
export const QUARANTINE = field(8, 2)

/** The master was healed in the quarantine that is still on. */
export const HEALED = field(30, 1)
/** It restarted with a wrong clock, which is set right later. */
export const WRONG = field(31, 1)

/** What travels between an attempt and a master. */
export interface Traffic {
  /** An acquire is on its way. */
  readonly acquire: Field
  /** The counter that the master granted, 0 for none; kept until the attempt decides. */
  readonly granted: Field
  /** 0 nothing, 1 on its way, 2 counted. */
  readonly confirm: Field
  /** 0 nothing, 1 on its way, 2 counted, 3 answered "missing". */
  readonly extend: Field
  readonly heal: Field
}

const traffic = (base: number): Traffic => ({
  acquire: field(base, 1),
  granted: field(base + 1, 4),
  confirm: field(base + 5, 2),
  extend: field(base + 7, 2),
  heal: field(base + 9, 1),
})

export const TRAFFIC: readonly [Traffic, Traffic] = [traffic(10), traffic(20)]

export const IDLE = 0
export const POLLING = 1
export const CONFIRMING = 2
export const HELD = 3
/** Gave up, released, or ran out of trust. */
export const OVER = 4

export const PHASE = field(0, 3)
/** The fencing token, from the decision on. */
export const TOKEN = field(3, 4)
export const PROPOSAL = field(7, 4)
/** The largest token that was complete when this attempt began. */
export const FLOOR = field(11, 4)
export const EXTENDING = field(17, 1)
/**
 * When the extension began, another lease with a larger token had been complete since this one was.
 */
export const OVERTAKEN = field(18, 1)
export const TRUST = field(19, 2)
export const NEW_TRUST = field(21, 2)
/** Complete at some time; and before the other one. */
export const COMPLETED = field(23, 1)
export const COMPLETED_FIRST = field(24, 1)

/** What is left of the faults and of the rounds. */
export const LOSSES = field(0, 2)
export const DUPLICATES = field(2, 2)
export const ROUNDS = field(4, 2)

export function get(word: number, { shift, mask }: Field): number {
  return (word >>> shift) & mask
}

export function set(word: number, { shift, mask }: Field, value: number): number {
  return ((word & ~(mask << shift)) | (value << shift)) >>> 0
}
