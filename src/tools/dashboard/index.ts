export { dashboardHandler, type DashboardHandler, type Next } from './handler.ts'
export { showReasons, type LogAdapter } from './bull-board.ts'
export type { DashboardOptions } from './options.ts'
export type { AccessOptions } from './access.ts'
