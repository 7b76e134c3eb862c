/**
 * `registerQueue` and `@Processor` make a `LockedQueue` and a `LockedWorker` where `resource` is
 * given, and BullMQ's own classes elsewhere. Import this before the module is made.
 */
import { BullModule, type RegisterQueueOptions } from '@nestjs/bullmq'
import { Queue, Worker, type Processor, type QueueOptions, type WorkerOptions } from 'bullmq'
import {
  LockedQueue,
  LockedWorker,
  type LockedQueueOptions,
  type LockedWorkerOptions,
} from 'bullmq-redlock'

/** For `BullModule.registerQueue`. */
export const lockedQueue = (
  options: RegisterQueueOptions & Omit<LockedQueueOptions, 'connection'>,
): RegisterQueueOptions => options

/** For `@Processor`. */
export const lockedWorker = (options: Omit<LockedWorkerOptions, 'connection'>) =>
  options as unknown as Omit<WorkerOptions, 'connection'>

BullModule.queueClass = class {
  constructor(_name: string, options: RegisterQueueOptions & QueueOptions) {
    const { name = 'default', configKey, processors, forceDisconnectOnShutdown, ...own } = options
    return 'resource' in own
      ? new LockedQueue(name, own as unknown as LockedQueueOptions)
      : new Queue(name, own)
  }
}

BullModule.workerClass = class {
  constructor(name: string, processor: Processor, options: WorkerOptions) {
    // NestJS hands over what the queue does not have as `undefined`.
    const own = Object.fromEntries(
      Object.entries(options).filter(([, value]) => value !== undefined),
    )
    return 'resource' in own
      ? new LockedWorker(name, processor, own as unknown as LockedWorkerOptions)
      : new Worker(name, processor, options)
  }
}
