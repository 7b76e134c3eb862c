/** The command line of the lock benchmark; `--help` says what it takes. */
import { readFile, writeFile } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { machine, startBench } from '../command.ts'
import { contenders } from './contender.ts'
import { effortOf } from './effort.ts'
import { Harness } from './harness.ts'
import { markdown, text, type Report } from './report.ts'
import type { Measured } from './row.ts'
import { rows } from './rows/index.ts'

const PAGE = 'docs/performance.md'
const BEGIN = '<!-- figures: begin; npm run bench:locks -- … --markdown writes them -->'
const END = '<!-- figures: end -->'

const chosen = await startBench({
  name: 'bench:locks',
  title: 'How fast the lock is, beside five published ones and two bounds.',
  rows,
  markdown: `writes the figures of these rows into ${PAGE}`,
  exitCode:
    '0 measured (a figure that misses its target is only marked), 1 something went wrong that must not at any speed',
})
const report = await measure()
console.log(chosen.json ? JSON.stringify(report) : text(report))
if (chosen.markdown) await updatePage(report)
const wrong = report.rows.flatMap((row) => row.wrong)
for (const what of wrong) console.error(`WRONG: ${what}`)
process.exitCode = wrong.length > 0 ? 1 : 0

async function measure(): Promise<Report> {
  const startedAt = performance.now()
  const [busy = 0] = loadavg()
  await using harness = await Harness.open(effortOf(chosen.rounds, chosen.smoke), console.error)
  const versions: Record<string, readonly string[]> = {}
  for (const contender of contenders) {
    versions[contender.title] = await (await harness.process(contender)).ask('versions', null)
  }
  const measured: Report['rows'][number][] = []
  for (const row of chosen.rows) {
    const { name, load } = row
    const begunAt = performance.now()
    const result = await row.run(harness).catch(brokenOff)
    measured.push({ name, load, ...result, seconds: (performance.now() - begunAt) / 1_000 })
  }
  return {
    command: `npm run bench:locks -- ${process.argv.slice(2).join(' ')}`.trim(),
    date: new Date().toISOString().slice(0, 10),
    machine: `${machine()}, five Redis ${await harness.serverVersion()} on the same machine, load average ${busy.toFixed(1)} at the start`,
    rounds: harness.effort.rounds,
    seconds: (performance.now() - startedAt) / 1_000,
    versions,
    rows: measured,
  }
}

/** One row that cannot be measured takes nothing from the others. */
function brokenOff(error: unknown): Measured {
  console.error(error)
  const what = error instanceof Error ? error.message : String(error)
  return { tables: [], figures: [], wrong: [`broken off: ${what}`], samples: [] }
}

/** Everything outside the two marks is written by hand and stays. */
async function updatePage(finished: Report): Promise<void> {
  const page = await readFile(PAGE, 'utf8')
  const from = page.indexOf(BEGIN)
  const to = page.indexOf(END)
  if (from < 0 || to < from) throw new Error(`${PAGE} must contain "${BEGIN}" and "${END}"`)
  const figures = markdown(finished)
  await writeFile(PAGE, `${page.slice(0, from)}${BEGIN}\n\n${figures}\n\n${page.slice(to)}`)
}
