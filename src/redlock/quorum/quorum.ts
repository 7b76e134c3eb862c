/** Where votes become a decision. Pure: numbers in, a verdict out. */

export type Verdict = 'for' | 'against'

/** The smallest majority of `masters`: any two quorums share at least one master. */
export function quorumOf(masters: number): number {
  return Math.floor(masters / 2) + 1
}

/** Decided as early as the remaining votes can no longer change it, both ways; else undefined. */
export function decide(masters: number, granted: number, refused: number): Verdict | undefined {
  const quorum = quorumOf(masters)
  if (granted >= quorum) return 'for'
  if (refused > masters - quorum) return 'against'
  return undefined
}
