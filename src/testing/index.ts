/** Real Redis servers for tests: start them, kill them, freeze them, bring them back. */

export { type Fleet, type FleetOptions, startFleet } from './fleet.ts'
export { type ServerOptions, startServer } from './start-server.ts'
export type { Backend, RestartOptions, ServerConfig, TestServer } from './test-server.ts'
