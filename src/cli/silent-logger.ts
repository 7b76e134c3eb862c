import type { Logger } from '../logger.ts'

const ignore = (): void => undefined

/** For commands that report themselves what a Redlock would log. */
export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }
