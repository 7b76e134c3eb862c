/**
 * Whether a server does what a lease needs. A user without a right, a full memory, a missing
 * replica or a failing disk lets a server answer, and grant nothing. Only a write shows it.
 */
import { callOf, type Call } from './calls.ts'
import type { Refusal } from './master.ts'

/** `lua/trial.lua` */
export const trialCall: Call = callOf({ verb: 'trial' })

/** A managed server may not have them. */
export const ALLOW_COMMANDS = 'use a server that allows INFO, TIME, SCRIPT LOAD, EVAL and EVALSHA'

/** What to do about what a server says instead of doing it; the first that fits. */
const FIXES: readonly (readonly [RegExp, string])[] = [
  [
    /^NOPERM|^ERR The user executing|can't run this command|can't access/,
    'give its user the rights that deploy/redis/lock-master.acl lists',
  ],
  [/unknown command/, ALLOW_COMMANDS],
  [
    /cluster node|same slot/,
    'use a server without cluster mode: a lease has keys of several slots',
  ],
  [/^NOREPLICAS/, 'set `min-replicas-to-write 0`: a master has no replicas to wait for'],
  [/^OOM/, 'raise its `maxmemory`'],
  [/^MISCONF/, 'read its log and free disk space'],
]

/** Of a server that said so. */
export function refusalBy(message: string): Refusal {
  const [, fix = 'read its log'] = FIXES.find(([said]) => said.test(message)) ?? []
  const [said = ''] = message.split(', with args beginning') // They may be a whole script.
  const problem = `refuses what a lease needs: ${said}`
  return { status: 'refused', problem, fix, fault: 'server' }
}
