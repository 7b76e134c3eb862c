import type { Logger } from '../../src/logger.ts'

/** What happens in a simulated world is in its trace. */
export const SILENT: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
