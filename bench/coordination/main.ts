/** The command line of the coordination benchmark; `--help` lists its options. */
import { machine, startBench } from '../command.ts'
import { Harness } from './harness.ts'
import { isWrong, markdown, printRow, type RowResult } from './report.ts'
import type { Row } from './row.ts'
import { rows } from './rows/index.ts'

const chosen = await startBench({
  name: 'bench:coordination',
  title: 'How jobs that share a resource are coordinated: fairness, order, crashes, overhead.',
  rows,
  markdown: 'the table of docs/coordination.md, after the figures',
  exitCode: '0 every correctness figure holds (a speed that misses is only marked), 1 otherwise',
})
const { rounds, smoke, json } = chosen
const extent = { rounds, smoke, warmUps: smoke ? 0 : 1 }
if (!json) console.log(`${machine()}, median of ${rounds} rounds`)
const results = await runAll()
if (chosen.markdown && !json) console.log(`\n${markdown(results)}`)
const ok = !results.some((result) => isWrong(result))
if (json) {
  const report = { machine: machine(), rounds, smoke, results, ok }
  // JSON has no Infinity.
  const replacer = (_key: string, value: unknown): unknown => (value === Infinity ? 'never' : value)
  console.log(JSON.stringify(report, replacer))
}
process.exit(ok ? 0 : 1) // At once: a row that failed may have left connections open.

async function runAll(): Promise<readonly RowResult[]> {
  const done: RowResult[] = []
  let harness = await Harness.open()
  for (const row of chosen.rows) {
    const result = await runOne(row, harness)
    done.push(result)
    if (!json) printRow(result)
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
