import type { Logger } from '../../src/index.ts'

/** The demo breaks its own masters; the warnings that follow are no news. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
