import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { Redlock } from 'bullmq-redlock'
import { AppModule } from './app-module.js'

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] })
process.stdout.write('ready\n')

const stop = async (): Promise<void> => {
  await app.close() // Running jobs finish, and release their leases.
  await app.get(Redlock).close()
  process.stdout.write('closed\n')
}
// Not `enableShutdownHooks`: the Redlock must be the last to go, and NestJS promises no order.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop())
