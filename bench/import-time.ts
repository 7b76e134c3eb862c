/** How long a process takes to import the built package; `--help` says more. */
import { readOptions } from '../scripts/read-options.ts'
import { importTimes } from './import-times.ts'

const USAGE = `How long a process takes to import the built package, beside bullmq alone, which the package imports as well.

  npm run bench:import

Exit code: 0 measured, 2 bad arguments.`

readOptions(USAGE, {})
const NAMES = ['bullmq', 'bullmq-redlock', 'bullmq-redlock/queue']
const times = await importTimes(`${import.meta.dirname}/..`, NAMES, 21)
for (const name of NAMES) {
  const ms = times.median(name, 'ms').toFixed(0).padStart(5)
  const ratio = times.ratio(name, 'bullmq', 'ms').median.toFixed(2)
  console.log(`${name.padEnd(22)} ${ms} ms  ${ratio} times bullmq`)
}
