import type { Hazard } from '../hazard.ts'
import * as grants from './grants.ts'
import * as keys from './lost-key.ts'
import * as masters from './masters-away.ts'
import * as work from './under-work.ts'

/** In the order of the table. */
export const hazards: readonly Hazard[] = [
  ...[grants.expiredGrant, grants.selfBlock, grants.contenders],
  ...[masters.blackHole, masters.refusingMaster, masters.refusingMinority],
  ...[grants.ghost, masters.lossSignal, grants.evenMasters, grants.lowQuorum],
  ...[work.routineResult, work.nestedUse, work.suspendedHolder],
  ...[keys.emptyRestart, keys.halfDurable, keys.clockStep, keys.wrongReboot],
  ...[masters.reasons, grants.fencing],
]
