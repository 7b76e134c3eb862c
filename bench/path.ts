/** What one acquire and one job run, by the built package; `--help` says more. */
import { readOptions } from '../scripts/read-options.ts'

const USAGE = `Which source files and functions one uncontended acquire and one job run.

  npm run bench:path

Exit code: 0 measured, 2 bad arguments.`

readOptions(USAGE, {})
await import('./acquire-path.ts')
await import('./job-path.ts')
