/** A waiter that stops waiting leaves its place; where that is not heard, its place expires. */
import { callOf, type Procedure } from '../wire/batch.ts'
import { callMaster } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'

/** `lua/withdraw.lua` */
export const withdrawProcedure: Procedure = { name: 'withdraw' }

export async function withdraw(
  { masters, settings }: LockFleet,
  resources: readonly string[],
  waiter: string,
): Promise<void> {
  const call = callOf(withdrawProcedure, [resources, waiter])
  const { clock, masterTimeoutMs } = settings
  await Promise.all(masters.map((master) => callMaster(master, clock, call, masterTimeoutMs)))
}
