/**
 * Whether a server may vote, asked on every connect.
 *
 * A server process that the fleet has not seen (another run id, or no record) may have forgotten
 * leases, so it grants nothing for as long as the longest lease could last; extending, healing and
 * releasing go on. The record is kept on the master itself, so that all clients agree on whether it
 * may vote again.
 */
import { randomUUID } from 'node:crypto'
import { instant } from '../../clock.ts'
import { counted } from '../../counted.ts'
import { defineScript, luaText, type Script } from '../../lua.ts'
import { callOf, type Call } from '../wire/calls.ts'
import { callMaster, type Master, type Refusal } from '../wire/master.ts'
import { unfitFor, type ServerFacts } from '../wire/server-facts.ts'
import type { LockFleet } from './fleet.ts'
import type { Voter } from './voter.ts'

export const enrolScript: Script = defineScript('enrol', luaText('redlock/lua/enrol'))

type EnrolReply =
  | readonly ['enrolled', number, string, string, number]
  | readonly ['mismatch', string, string]
  | readonly ['foreign' | 'resizing' | 'retired']

function refusal(fault: Refusal['fault'], problem: string, fix: string): Refusal {
  return { status: 'refused', problem, fix, fault }
}

/** What an operator has closed. */
const CLOSED = {
  resizing: refusal(
    'server',
    'is closed for a resize of its fleet',
    'wait, or run the same `bullmq-redlock resize` again if it was interrupted',
  ),
  retired: refusal(
    'client',
    'was taken out of its fleet by `bullmq-redlock resize`',
    'take it out of `masters`',
  ),
}

const HOW_TO_AGREE =
  'give every client the same, or another `namespace` where they lock other things; ' +
  'to change it for the fleet, run `bullmq-redlock resize`'

/** Changes nothing: no lease has an empty name. */
const KNOWS_US: Call = callOf({ verb: 'extend', fence: 0 })

/** @returns why it may not; undefined where it may. */
export async function admit(
  fleet: LockFleet,
  voter: Voter,
  facts: ServerFacts,
): Promise<Refusal | undefined> {
  const twin = fleet.voters.find((other) => other !== voter && other.claims.has(facts.runId))
  // rule: masters-are-distinct
  if (twin !== undefined) {
    const fix =
      'list distinct servers in `masters`: two addresses of one server would count as two votes'
    return refusal('client', `is the same server as ${twin.master.name}`, fix)
  }
  const [unfit] = unfitFor(facts)
  if (unfit !== undefined) return refusal('server', unfit.problem, unfit.fix)
  // Claimed before the first await, so that two connections to one server cannot both pass.
  voter.claims.add(facts.runId)
  const { clock, maxLeaseMs, fenceTtlMs, addresses } = fleet.settings
  const sentAt = instant(clock)
  const enrol = async (founds: 0 | 1): Promise<EnrolReply> => {
    const args = [
      ...[facts.runId, maxLeaseMs, fleet.quarantineMs, facts.durable ? 1 : 0, addresses.length],
      ...[founds, fleet.clientId, randomUUID(), fenceTtlMs],
    ]
    return (await voter.master.eval(enrolScript, [fleet.keys.master], args)) as EnrolReply
  }
  let reply = await enrol(0)
  if (reply[0] === 'foreign' && (await mayFound(fleet, voter))) reply = await enrol(1)
  if (reply[0] !== 'foreign') voter.knowsUs = reply[0] === 'enrolled'
  if (reply[0] === 'resizing' || reply[0] === 'retired') return CLOSED[reply[0]]
  if (reply[0] !== 'enrolled') {
    return refusal('client', difference(fleet, voter, reply), HOW_TO_AGREE)
  }
  const [, leftMs, quarantine, founder, serverMs] = reply
  voter.isFoundedHere = founder === fleet.clientId
  voter.quarantined(quarantine, leftMs)
  fleet.clocks.observe(voter.master, serverMs, sentAt)
  return undefined
}

/** What a master says of the fleet, and this client otherwise. */
function difference(
  { settings, isOneOfTwo }: LockFleet,
  { knowsUs }: Voter,
  [word, name, theirs]: readonly string[],
): string {
  const { maxLeaseMs, fenceTtlMs, addresses } = settings
  if (word === 'foreign') {
    if (isOneOfTwo) return 'has no memory, and a client with `previous` founds no fleet'
    return knowsUs === false && addresses.length === 1
      ? 'has no memory, and refused this client before; restart this client if it is right now'
      : 'has no memory, and other masters refuse this client'
  }
  const own = { maxLeaseMs, fenceTtlMs }[name ?? '']
  return own !== undefined
    ? `the fleet's \`${name}\` is ${theirs}, this client's is ${own}`
    : `the fleet has ${counted(Number(theirs), 'master')}, this client's \`masters\` are ${addresses.length}`
}

/**
 * Only a client that more masters know than refuse may enrol a master without memory: it decides
 * for all. They are asked now: the fleet may have been resized since they enrolled this client.
 */
async function mayFound(fleet: LockFleet, voter: Voter): Promise<boolean> {
  const { voters, quorum, isOneOfTwo } = fleet
  const others = voters.filter((other) => other !== voter)
  const answers = await Promise.all(
    others.map(async ({ master, knowsUs }) => knowsUs && knowsUsNow(fleet, master)),
  )
  const knowing = answers.filter((knows) => knows === true).length
  // rule: follower-founds-no-fleet
  if (isOneOfTwo) return knowing >= quorum
  const refusing = answers.filter((knows) => knows === false).length
  if (refusing < knowing) return true
  // A fleet of one has no other masters: what it said before it lost its memory counts.
  // rule: refused-client-remembers-it
  return refusing === 0 && (others.length > 0 || voter.knowsUs !== false)
}

/** Whether the master has still enrolled this client; undefined where it does not answer. */
export async function knowsUsNow(
  { settings }: LockFleet,
  master: Master,
): Promise<boolean | undefined> {
  const result = await callMaster(master, settings.clock, KNOWS_US, settings.masterTimeoutMs)
  if (result.kind === 'failed') return undefined
  // rule: who-founds-is-known-now
  const knowsUs = Array.isArray(result.reply) && result.reply[0] !== 'unenrolled'
  if (!knowsUs) master.enrolment.reenrol('it does not know this client any more')
  return knowsUs
}
