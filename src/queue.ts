/** `bullmq-redlock/queue`: as much as a producer needs, without locks, workers and telemetry. */
export { LockedQueue, type LockedQueueOptions } from './worker/locked-queue.ts'
export { ShardedQueue, type ShardedQueueOptions } from './sharded/sharded-queue.ts'
export { LineFullError, PlainWorkerError, QueueDeniedError, RedlockError } from './errors.ts'
export { ResourceError } from './job-errors.ts'
export {
  SettingsDifferError,
  ShardError,
  ShardsDifferError,
  ShardUnreachableError,
} from './errors.ts'
export type { LinePosition } from './line/position.ts'
export type { CancelOptions, Cancelled } from './line/cancel.ts'
export type { JobRate, LimitOptions, LimitSetting, Rate, ResourceLimits } from './line/limits.ts'
export type { ResourceOf } from './line/placement.ts'
