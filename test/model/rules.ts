/** Rules of the protocol that the exhaustive model can be run without, to see what they are for. */
export const REMOVABLE = [
  ...['everyGrantRaises', 'heldIsNotGranted', 'confirmRound', 'confirmIsExact', 'confirmChecksKey'],
  ...['extendChecksCounter', 'extendChecksKey', 'extendNeverCreates', 'extendInsideTrust'],
  ...['healWaitsForQuorum', 'healNeverReplaces', 'healChecksCounter', 'healedWaitsForVote'],
  ...['quarantine', 'quarantineIsMonotonic', 'trustFromStart'],
] as const

export type Removable = (typeof REMOVABLE)[number]
