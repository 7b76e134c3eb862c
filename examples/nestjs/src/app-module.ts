import { BullModule } from '@nestjs/bullmq'
import { Module } from '@nestjs/common'
import { Redlock } from 'bullmq-redlock'
import { ChargeProcessor } from './charge-processor.js'

const { MASTER_URLS = '', QUEUE_URL = '' } = process.env

@Module({
  imports: [
    BullModule.forRoot({ connection: { url: QUEUE_URL } }),
    BullModule.registerQueue({ name: 'charges' }),
  ],
  providers: [
    { provide: Redlock, useFactory: () => new Redlock({ masters: MASTER_URLS.split(',') }) },
    ChargeProcessor,
  ],
})
export class AppModule {}
