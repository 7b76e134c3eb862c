/** Ends the quarantine of a fleet that is new. */
import { LeaseExistsError, NotNewFleetError, type MasterAnswer } from '../../lock-errors.ts'
import { describeState } from '../wire/master.ts'
import type { LockFleet } from './fleet.ts'

/** What `bootstrap` must be told. */
export interface BootstrapOptions {
  /** Says that no client has ever used this fleet. */
  readonly newFleet: true
  /** @internal An operator has confirmed it, also where clients have enrolled the masters. */
  readonly confirmed?: boolean
}

/** @throws what {@link Redlock.bootstrap} says. @returns the names of the masters that vote now. */
export async function bootstrapFleet(
  fleet: LockFleet,
  { confirmed = false }: BootstrapOptions,
): Promise<readonly string[]> {
  for (const master of fleet.masters) {
    if (master.state.status !== 'enrolled') continue
    const key = await master.findKey(fleet.keys.leasePattern)
    if (key !== undefined) throw new LeaseExistsError(master.name, key)
  }
  const signs = confirmed ? [] : signsOfUse(fleet)
  if (signs.length > 0) throw new NotNewFleetError(signs)
  const enrolled = fleet.voters.filter(({ master }) => master.state.status === 'enrolled')
  await Promise.all(enrolled.map((voter) => voter.report(0)))
  return enrolled.map(({ master }) => master.name)
}

/**
 * Why a fleet is not new, one line for each master that says so: this client was not the first to
 * enrol it, or it cannot be asked. Empty also where no master is quarantined.
 */
function signsOfUse({ voters }: LockFleet): readonly MasterAnswer[] {
  if (voters.every(({ quarantineLeftMs }) => quarantineLeftMs === 0)) return []
  return voters.flatMap(({ isFoundedHere, master: { name, state } }) => {
    if (state.status !== 'enrolled') return [{ master: name, answer: describeState(state) }]
    const answer = 'another client has enrolled it before'
    return isFoundedHere ? [] : [{ master: name, answer }]
  })
}
