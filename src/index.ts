import './telemetry/join.ts'
export { Redlock } from './redlock/redlock.ts'
export type { BootstrapOptions } from './redlock/fleet/bootstrap.ts'
export type { RedlockStatus } from './redlock/redlock.ts'
export type { AcquireOptions, LeaseOptions } from './lock/lease-options.ts'
export type { Inspection, MasterView } from './lock/inspection.ts'
export type { LineEntry } from './line/members.ts'
export type { ResourceInspection } from './worker/inspection.ts'
export type { LockService } from './lock/lock-service.ts'
export type { RedlockOptions } from './redlock/settings.ts'
export type { Lease, ExtendOutcome } from './lock/lease.ts'
export type { AcquireOutcome, NotGranted, Split, Taken, Unreachable } from './lock/outcome.ts'
export type { MasterAddress } from './redlock/wire/connection-settings.ts'
export { openTelemetry } from './telemetry/open-telemetry.ts'
export type { TelemetryOptions } from './telemetry/resource-classes.ts'
export { listen } from './channel.ts'
export type { Listener, Within } from './channel.ts'
export type {
  AttemptStatus,
  ExtendResult,
  FactName,
  Facts,
  LeaseEnd,
  LineCensus,
  LossReason,
  MasterStatus,
  Question,
  ToldJob,
  ToldLease,
  ToldLock,
  ToldWorker,
  VoteOutcome,
} from './facts.ts'
export { silentLogger, type Logger } from './logger.ts'
export * from './errors.ts'
export * from './lock-errors.ts'
export type { Slots } from './slots.ts'
export type { LinePosition } from './line/position.ts'
export type { CancelOptions, Cancelled } from './line/cancel.ts'
export type { JobRate, LimitOptions, LimitSetting, Rate, ResourceLimits } from './line/limits.ts'
export { LockedWorker } from './worker/locked-worker.ts'
export type { LockedWorkerListener } from './worker/worker-events.ts'
export type { LockedWorkerOptions } from './worker/locked-worker-options.ts'
export { LockedQueue } from './worker/locked-queue.ts'
export type { LockedQueueOptions } from './worker/locked-queue.ts'
export { ShardedQueue } from './sharded/sharded-queue.ts'
export type { ShardedQueueOptions } from './sharded/sharded-queue.ts'
export { ShardedQueueEvents } from './sharded/sharded-queue-events.ts'
export type { ShardedQueueEventsOptions } from './sharded/sharded-queue-events.ts'
export { ShardedWorker } from './sharded/sharded-worker.ts'
export type { ShardedWorkerOptions } from './sharded/sharded-worker.ts'
export { lockedProcessor } from './worker/locked-processor.ts'
export type {
  LeasedProcessor,
  LockedProcessor,
  LockedProcessorOptions,
} from './worker/locked-processor.ts'
export { batchProcessor } from './worker/run/batch.ts'
export type { BatchOptions, BatchProcessor, BatchRun } from './worker/run/batch.ts'
export type { Dedupe } from './worker/run/shared-results.ts'
export type { DrainOptions } from './worker/locked-worker.ts'
export type { JobLease, StepContext } from './worker/run/job-lease.ts'
export type { Requeue } from './worker/run/requeue.ts'
export type { ResourceOf } from './line/resource.ts'
export type { WorkerContext } from './worker/worker-context.ts'
