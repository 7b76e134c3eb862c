/** Whether leases are granted, and how many servers may still fail, in one line. */
import { counted } from '../../counted.ts'
import type { Diagnosis } from './diagnosis.ts'
import type { ServiceDiagnosis } from './lock-view.ts'

export interface FleetVerdict {
  readonly state: 'good' | 'soon' | 'bad'
  readonly text: string
}

export function verdictOf(found: Diagnosis | ServiceDiagnosis): FleetVerdict {
  const { margin, voting, masters } = found
  const isService = 'service' in found
  const isWorse = voting < masters.length || (margin === 0 && !isService)
  const state = margin < 0 ? 'bad' : isWorse ? 'soon' : 'good'
  return { state, text: isService ? ofService(found) : ofFleet(found) }
}

function ofFleet({ voting, masters, quorum, margin }: Diagnosis): string {
  const votes = `${voting} of ${counted(masters.length, 'master votes', 'masters vote')}, ${counted(quorum, 'is', 'are')} needed`
  if (margin < 0) return `${votes}; no lease can be granted`
  return `${votes}; ${margin === 0 ? 'none may fail' : `${margin} more may fail`}`
}

function ofService({ service, problem, masters, voting }: ServiceDiagnosis): string {
  if (problem !== undefined) return `NO LEASES from ${service}: ${problem}`
  const size = masters.length
  const answer = `: ${voting} of ${counted(size, 'server answers', 'servers answer')}`
  return `${service} grants leases${size === 1 ? '' : answer}`
}
