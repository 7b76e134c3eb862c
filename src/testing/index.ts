/**
 * For tests: real Redis servers to start, kill, freeze and bring back; and a fleet in memory with a clock to move, for tests that
 * need no server.
 */

export { type Fleet, type FleetOptions, startFleet } from './fleet.ts'
export { type ServerOptions, startServer } from './start-server.ts'
export type { Backend, RestartOptions, ServerConfig, TestServer } from './test-server.ts'
export { FakeClock } from './fake-clock.ts'
export { type MemoryFleet, type MemoryFleetOptions, memoryFleet } from './memory-fleet.ts'
export type { MemoryMaster } from './memory-master.ts'
