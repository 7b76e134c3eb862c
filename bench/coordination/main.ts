/** The command line of the coordination benchmark; `--help` lists its options. */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { provisionServer } from '../../scripts/provision-server.ts'
import { installPeers } from '../peers/install.ts'
import { Harness } from './harness.ts'
import { isWrong, markdown, printRow, type RowResult } from './report.ts'
import type { Extent, Row } from './row.ts'
import { rows } from './rows/index.ts'

const USAGE = `How jobs that share a resource are coordinated: fairness, order, crashes, overhead.

  npm run bench:coordination -- [options]

  --rows NAME,…  only these rows
  --rounds N     how often each contender runs a load; the median counts (default 5)
  --smoke        every row once and small: it shows that the row works, not how fast
  --list         the rows and their loads
  --json         one JSON object
  --markdown     the table of docs/coordination.md, after the figures

Exit code: 0 every correctness figure holds (a speed that misses its limit is only marked),
1 otherwise, 2 bad arguments.`

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '' },
    rounds: { type: 'string' },
    smoke: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    markdown: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (values.help || values.list) {
  console.log(values.help ? USAGE : rows.map(({ name, load }) => `${name}: ${load}`).join('\n'))
  process.exit(0)
}
const extent: Extent = {
  rounds: Number(values.rounds ?? (values.smoke ? 1 : 5)),
  smoke: values.smoke,
}
const wanted = values.rows === '' ? rows.map(({ name }) => name) : values.rows.split(',')
const unknown = wanted.filter((name) => !rows.some((row) => row.name === name))
if (!Number.isInteger(extent.rounds) || extent.rounds < 1 || unknown.length > 0) {
  if (unknown.length > 0) console.error(`Unknown rows: ${unknown.join(', ')}. See --list.`)
  console.error(USAGE)
  process.exit(2)
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => process.exit(130)) // Servers and workers end with this process.
}

await provisionServer({ install: true, say: console.error })
await installPeers(console.error)
const machine = `Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model ?? 'cpu'}`
if (!values.json) console.log(`${machine}, median of ${extent.rounds} rounds`)
const results = await runAll(rows.filter(({ name }) => wanted.includes(name)))
if (values.markdown && !values.json) console.log(`\n${markdown(results)}`)
const ok = !results.some((result) => isWrong(result))
if (values.json) console.log(JSON.stringify({ machine, ...extent, results, ok }, neverInWords))
process.exit(ok ? 0 : 1) // At once: a row that failed may have left connections open.

/** JSON has no Infinity. */
function neverInWords(_key: string, value: unknown): unknown {
  return value === Infinity ? 'never' : value
}

async function runAll(chosen: readonly Row[]): Promise<readonly RowResult[]> {
  const done: RowResult[] = []
  let harness = await Harness.open()
  for (const row of chosen) {
    const result = await runOne(row, harness)
    done.push(result)
    if (!values.json) printRow(result)
    if (result.failure !== undefined) {
      // Its workers may still be busy with the load that failed.
      await harness[Symbol.asyncDispose]()
      harness = await Harness.open()
    }
  }
  await harness[Symbol.asyncDispose]()
  return done
}

async function runOne(row: Row, harness: Harness): Promise<RowResult> {
  const { name, load } = row
  const startedAt = performance.now()
  try {
    const figures = await row.run(harness, extent)
    return { name, load, figures }
  } catch (error) {
    return { name, load, figures: [], failure: String(error) }
  } finally {
    console.error(`${name}: ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`)
  }
}
