/**
 * `npm run bench:import`: how long a process takes to import the built package, beside bullmq
 * alone, which the package imports as well. `-- --rounds 31` takes more processes of each.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { importTimes } from './import-times.ts'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '21' } } })
const NAMES = ['bullmq', 'bullmq-redlock', 'bullmq-redlock/queue'] as const
const times = await importTimes(join(import.meta.dirname, '..'), NAMES, Number(values.rounds))
for (const name of NAMES) {
  const ms = times.median(name).toFixed(0).padStart(5)
  console.log(`${name.padEnd(22)} ${ms} ms  ${times.ratio(name, 'bullmq').toFixed(2)} times bullmq`)
}
