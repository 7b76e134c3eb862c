/** How long a process takes to import the built package; `--help` says more. */
import { join } from 'node:path'
import { integer, readOptions } from '../scripts/read-options.ts'
import { importTimes } from './import-times.ts'

const USAGE = `How long a process takes to import the built package, beside bullmq alone, which the package imports as well.

  npm run bench:import -- [options]

  --rounds N  processes of each (default 21)

Exit code: 0 measured, 2 bad arguments.`

const { rounds } = readOptions(USAGE, { rounds: integer(21) })
const NAMES = ['bullmq', 'bullmq-redlock', 'bullmq-redlock/queue'] as const
const times = await importTimes(join(import.meta.dirname, '..'), NAMES, rounds)
for (const name of NAMES) {
  const ms = times.median(name).toFixed(0).padStart(5)
  console.log(`${name.padEnd(22)} ${ms} ms  ${times.ratio(name, 'bullmq').toFixed(2)} times bullmq`)
}
