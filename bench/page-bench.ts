/** What the benchmarks have in common, from start to page. */
import { readFile, writeFile } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { machine, startBench } from './command.ts'
import { effortOf, type Effort } from './effort.ts'
import type { Measured, MeasuredRow } from './measured.ts'
import { markdown, text, type Report } from './report.ts'

const PAGE = 'docs/benchmark.md'
const END = '<!-- end -->'

interface PageBench<Harness> {
  /** Its name in package.json, and of its section. */
  readonly name: string
  readonly title: string
  readonly rows: readonly MeasuredRow<Harness>[]
  /** By default. */
  readonly rounds: number
  open(effort: Effort, say: (line: string) => void): Promise<Harness>
  /** `package@version` of everything, by contender. */
  versions(harness: Harness): Promise<Report['versions']>
  /** The servers, for the line about the machine. */
  servers(harness: Harness): Promise<string>
}

export async function runPageBench<Harness extends AsyncDisposable>(
  bench: PageBench<Harness>,
): Promise<void> {
  const { name, title, rows, rounds } = bench
  const chosen = await startBench({ name, title, rows, rounds, page: PAGE })
  const report = await measure(bench, chosen.rows, effortOf(chosen.rounds, chosen.smoke))
  console.log(text(report))
  if (chosen.markdown) await updatePage(name, report)
  const wrong = report.rows.flatMap((row) => row.wrong)
  for (const what of wrong) console.error(`WRONG: ${what}`)
  // At once: a row that failed may have left connections open.
  process.exit(wrong.length > 0 ? 1 : 0)
}

async function measure<Harness extends AsyncDisposable>(
  bench: PageBench<Harness>,
  rows: readonly MeasuredRow<Harness>[],
  effort: Effort,
): Promise<Report> {
  const startedAt = performance.now()
  const [busy = 0] = loadavg()
  let harness = await bench.open(effort, console.error)
  const versions = await bench.versions(harness)
  const servers = await bench.servers(harness)
  const measured: Report['rows'][number][] = []
  for (const row of rows) {
    const { name, load } = row
    const begunAt = performance.now()
    const result = await row.run(harness, effort).catch(async (error: unknown) => {
      // What it uses may still be busy with the load that failed.
      await harness[Symbol.asyncDispose]()
      harness = await bench.open(effort, console.error)
      return brokenOff(error)
    })
    const seconds = (performance.now() - begunAt) / 1_000
    console.error(`${name}: ${seconds.toFixed(1)} s`)
    measured.push({ name, load, ...result, seconds })
  }
  await harness[Symbol.asyncDispose]()
  return {
    command: `npm run ${bench.name} -- ${process.argv.slice(2).join(' ')}`.trim(),
    date: new Date().toISOString().slice(0, 10),
    machine: `${machine()}, ${servers} on the same machine, load average ${busy.toFixed(1)} at the start`,
    rounds: effort.rounds,
    seconds: (performance.now() - startedAt) / 1_000,
    versions,
    rows: measured,
  }
}

/** One row that cannot be measured takes nothing from the others. */
function brokenOff(error: unknown): Measured {
  console.error(error)
  const what = error instanceof Error ? error.message : String(error)
  return { tables: [], figures: [], wrong: [`broken off: ${what}`] }
}

/** Each row has two marks on the page; everything outside them is written by hand and stays. */
async function updatePage(name: string, finished: Report): Promise<void> {
  let page = await readFile(PAGE, 'utf8')
  for (const row of finished.rows) {
    const begin = `<!-- npm run ${name} -- ${row.name} --markdown -->`
    const from = page.indexOf(begin)
    const to = page.indexOf(END, from)
    if (from < 0 || to < from) {
      console.error(`${PAGE} has no "${begin}" and "${END}": the row is not written`)
    } else {
      page = `${page.slice(0, from)}${begin}\n\n${markdown(finished, row)}\n\n${page.slice(to)}`
    }
  }
  await writeFile(PAGE, page)
}
