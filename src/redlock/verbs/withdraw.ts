/** A waiter that stops waiting leaves its place; where that is not heard, its place expires. */
import { callOf, type Procedure } from '../wire/batch.ts'
import { callMaster } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'

/** Returns  withdrawn */
export const withdrawProcedure: Procedure = {
  name: 'withdraw',
  parameters: ['resources', 'waiter'],
  lua: `
for _, resource in ipairs(resources) do redis.call('ZREM', waitersKey(resource), waiter) end
return {'withdrawn'}
`,
}

export async function withdraw(
  { masters, settings }: LockFleet,
  resources: readonly string[],
  waiter: string,
): Promise<void> {
  const call = callOf(withdrawProcedure, [resources, waiter])
  const { clock, masterTimeoutMs } = settings
  await Promise.all(masters.map((master) => callMaster(master, clock, call, masterTimeoutMs)))
}
