import { BullModule } from '@nestjs/bullmq'
import { Module } from '@nestjs/common'
import { ChargeProcessor, type Charge } from './charge-processor.js'
import { lockedQueue } from './locked-bull.js'
import { ReportProcessor, type Report } from './report-processor.js'

const { BULLMQ_REDLOCK_QUEUE: url } = process.env
// BullMQ would take a Redis on this machine.
if (!url) throw new Error("Set BULLMQ_REDLOCK_QUEUE to the queue's Redis: redis://queue:6379")

@Module({
  imports: [
    BullModule.forRoot({ connection: { url } }),
    BullModule.registerQueue(
      lockedQueue({
        name: 'charges',
        resource: ({ customerId }: Charge) => `customer:${customerId}`,
      }),
      lockedQueue({ name: 'reports', resource: ({ month }: Report) => `report:${month}` }),
    ),
  ],
  providers: [ChargeProcessor, ReportProcessor],
})
export class AppModule {}
