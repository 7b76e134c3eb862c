import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { startFleet } from 'bullmq-redlock/testing'

// For trying: without servers of your own, some are started.
const isTrial = process.env['BULLMQ_REDLOCK_MASTERS'] === undefined
const fleet = isTrial ? await startFleet({ masters: 3 }) : undefined
if (fleet !== undefined) {
  process.env['BULLMQ_REDLOCK_MASTERS'] = fleet.urls.join(',')
  process.env['BULLMQ_REDLOCK_QUEUE'] = fleet.queue.url
}
const { redlock } = await import('./redlock.js')
if (isTrial) await redlock.bootstrap({ newFleet: true })
const { AppModule } = await import('./app-module.js')
const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] })
process.stdout.write('ready\n')

const stop = async (): Promise<void> => {
  await app.close() // Running jobs finish, and release their leases.
  await redlock.close()
  await fleet?.[Symbol.asyncDispose]()
  process.stdout.write('closed\n')
}
// Not `enableShutdownHooks`: the Redlock must be the last to go, and NestJS promises no order.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop())

if (isTrial) {
  const { addSomeJobs } = await import('./some-jobs.js')
  await addSomeJobs(app)
}
