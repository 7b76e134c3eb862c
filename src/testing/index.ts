/**
 * For tests: real Redis servers to start, kill, freeze and bring back; a lock in memory with a
 * clock to move, for tests that need no server; and a judge of what processes have logged about
 * their leases.
 */

export { type Fleet, type FleetOptions, startFleet } from './fleet.ts'
export { type ServerOptions, startServer } from './fleet.ts'
export type { Backend, RestartOptions, ServerConfig, TestServer } from './test-server.ts'
export { FakeClock } from './fake-clock.ts'
export { type MemoryLocks, type MemoryLocksOptions, memoryLocks } from './memory-locks.ts'
export type { TestNetwork } from './memory-server.ts'
export {
  type HistorySource,
  verifyHistory,
  verifyHistoryFiles,
} from '../tools/verify/verify-history.ts'
export type { HistoryVerdict, VerifyOptions } from '../tools/verify/history-checker.ts'
