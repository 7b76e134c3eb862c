/**
 * The package as its users run it: compiled. Its sources under a loader would be measured with what
 * the loader adds to every function. `npm run bench:…` builds it first. `silentLogger`
 * comes from here too: the package prepares lines for any other logger. Tests run its sources.
 */
import type * as Package from '../src/index.ts'

const entry = process.env['VITEST'] === undefined ? 'dist/index.js' : 'src/index.ts'
const file = new URL(`../${entry}`, import.meta.url)

export const {
  batchProcessor,
  LockedQueue,
  LockedWorker,
  QuorumUnreachableError,
  Redlock,
  ResourceTakenError,
  ShardedQueue,
  ShardedWorker,
  silentLogger,
} = (await import(file.href)) as typeof Package
