import { expect, test } from 'vitest'
import * as api from '../src/index.ts'
import * as queue from '../src/queue.ts'
import * as testing from '../src/testing/index.ts'

test('the public names are these and no others', () => {
  expect(Object.keys(api).sort()).toMatchInlineSnapshot(`
    [
      "ClockAheadError",
      "JobCancelledError",
      "JobLockLostError",
      "LeaseExistsError",
      "LeaseLostError",
      "LeaseTooShortError",
      "LineFullError",
      "LockedQueue",
      "LockedWorker",
      "MasterRefusedError",
      "NotNewFleetError",
      "PlainWorkerError",
      "QueueUnreachableError",
      "QuorumUnreachableError",
      "Redlock",
      "RedlockClosedError",
      "RedlockError",
      "ResourceError",
      "ResourceTakenError",
      "SettingsDifferError",
      "ShutdownError",
      "SplitVoteError",
      "StaleTokenError",
      "StepNotAwaitedError",
      "ValueTooLargeError",
      "WaitedTooLongError",
      "batchProcessor",
      "listen",
      "lockedProcessor",
      "openTelemetry",
      "silentLogger",
    ]
  `)
  expect(Object.keys(queue).sort()).toMatchInlineSnapshot(`
    [
      "LockedQueue",
      "PlainWorkerError",
      "RedlockError",
      "ResourceError",
      "SettingsDifferError",
    ]
  `)
  expect(Object.keys(testing).sort()).toMatchInlineSnapshot(`
    [
      "FakeClock",
      "memoryLocks",
      "startFleet",
      "startServer",
      "verifyHistory",
      "verifyHistoryFiles",
    ]
  `)
})
