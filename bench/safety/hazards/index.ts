import type { Hazard } from '../hazard.ts'
import { contenders } from './contenders.ts'
import { blackHole, refusingMaster } from './dead-master.ts'
import { evenMasters } from './even-masters.ts'
import { expiredGrant } from './expired-grant.ts'
import { fencing } from './fencing.ts'
import { ghost } from './ghost.ts'
import { lossSignal } from './loss-signal.ts'
import { clockStep, emptyRestart, halfDurable, wrongReboot } from './lost-key.ts'
import { lowQuorum } from './low-quorum.ts'
import { nestedUse } from './nested-use.ts'
import { reasons } from './reasons.ts'
import { refusingMinority } from './refusing-minority.ts'
import { routineResult } from './routine-result.ts'
import { selfBlock } from './self-block.ts'
import { suspendedHolder } from './suspended-holder.ts'

/** In the order of the table. */
export const hazards: readonly Hazard[] = [
  expiredGrant,
  selfBlock,
  contenders,
  blackHole,
  refusingMaster,
  refusingMinority,
  ghost,
  lossSignal,
  evenMasters,
  lowQuorum,
  routineResult,
  nestedUse,
  suspendedHolder,
  emptyRestart,
  halfDurable,
  clockStep,
  wrongReboot,
  reasons,
  fencing,
]
