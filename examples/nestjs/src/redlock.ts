import { Redlock } from 'bullmq-redlock'

const { BULLMQ_REDLOCK_MASTERS = '' } = process.env

/** One for the application: decorators name it, so it is no provider that NestJS makes. */
export const redlock = new Redlock({ masters: BULLMQ_REDLOCK_MASTERS.split(',') })
