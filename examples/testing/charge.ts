/**
 * What the examples test: a processor that charges a customer in two steps, and must not go on once
 * its lease is lost.
 */
import type { Job } from 'bullmq'
import type { JobLease } from '../../src/index.ts' // In your project: 'bullmq-redlock'

export interface Charge {
  readonly customer: string
  readonly cents: number
}

export interface Bank {
  reserve(charge: Charge): Promise<string>
  capture(reservation: string, fencingToken: number): Promise<void>
}

export function chargeWith(bank: Bank) {
  return async (job: Pick<Job<Charge>, 'data'>, lease: JobLease): Promise<string> => {
    const reservation = await lease.step('reserve', () => bank.reserve(job.data))
    await lease.step('capture', ({ fencingToken }) => bank.capture(reservation, fencingToken))
    return reservation
  }
}

export const resource = (job: Pick<Job<Charge>, 'data'>): string => `customer:${job.data.customer}`
