import { BullModule } from '@nestjs/bullmq'
import { Module } from '@nestjs/common'
import { Redlock } from 'bullmq-redlock'
import { ChargeProcessor } from './charge-processor.js'

const { BULLMQ_REDLOCK_MASTERS = '', BULLMQ_REDLOCK_QUEUE = '' } = process.env

@Module({
  imports: [
    BullModule.forRoot({ connection: { url: BULLMQ_REDLOCK_QUEUE } }),
    BullModule.registerQueue({ name: 'charges' }),
  ],
  providers: [
    {
      provide: Redlock,
      useFactory: () => new Redlock({ masters: BULLMQ_REDLOCK_MASTERS.split(',') }),
    },
    ChargeProcessor,
  ],
})
export class AppModule {}
