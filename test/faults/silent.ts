import type { Logger } from '../../src/index.ts'

const ignore = (): void => undefined

/** Faults are what these tests are about; what the library says of them would only hide the verdict. */
export const silent: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }
