/** The command line of the lock benchmark; `--help` says what it takes. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { cpus, loadavg, totalmem } from 'node:os'
import { dirname, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { provisionServer } from '../../scripts/provision-server.ts'
import { installPeers } from '../peers/install.ts'
import { contenders } from './contender.ts'
import { effortOf } from './effort.ts'
import { Lab } from './lab.ts'
import { plot } from './plot.ts'
import { figureTable, markdown, text, type Report } from './report.ts'
import type { Measured } from './row.ts'
import { rows } from './rows/index.ts'

const PAGE = 'docs/performance.md'
const BEGIN = '<!-- figures: begin; npm run bench:locks -- … --markdown writes them -->'
const END = '<!-- figures: end -->'

const USAGE = `How fast the lock is, beside five published ones and two bounds.

  npm run bench:locks -- [row]... [options]

  row          ${rows.map(({ name }) => name).join(', ')}, or all (default)
  --rounds N   in which the contenders take turns; the median counts (default 5)
  --smoke      every load once and for a moment, to see that it works; its figures mean nothing
  --json       one JSON object with every sample
  --svg FILE   the main figures as bars
  --markdown   writes the figures of these rows into ${PAGE}

Exit code: 0 measured (a figure that misses its target is only marked), 1 something went wrong that must not at any speed,
64 bad arguments.`

const { rounds, smoke, json, svg, writesPage, chosen } = argumentsOf(process.argv.slice(2))
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => process.exit(130)) // Servers and contenders end with this process.
}
const say = (line: string): void => {
  console.error(line)
}
const effort = effortOf(rounds, smoke)
await provisionServer({ install: true, say })
await installPeers(say)
const report = await measure()
if (json) console.log(JSON.stringify(report))
else print(report)
if (svg !== undefined) await write(svg, plot(report.rows.flatMap(({ panels }) => panels)))
if (writesPage) await updatePage(report)
const wrong = report.rows.flatMap((row) => row.wrong)
for (const what of wrong) console.error(`WRONG: ${what}`)
process.exitCode = wrong.length > 0 ? 1 : 0

async function measure(): Promise<Report> {
  const startedAt = performance.now()
  const [busy = 0] = loadavg()
  await using lab = await Lab.open(effort, say)
  const versions: Record<string, readonly string[]> = {}
  for (const contender of contenders) {
    versions[contender.title] = await (await lab.process(contender)).ask('versions', null)
  }
  const measured: Report['rows'][number][] = []
  for (const row of chosen) {
    const { name, load } = row
    const begunAt = performance.now()
    const result = await row.run(lab).catch(brokenOff)
    measured.push({ name, load, ...result, seconds: (performance.now() - begunAt) / 1_000 })
  }
  const model = cpus()[0]?.model ?? 'unknown processor'
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  const size = `${cpus().length} × ${model}, ${gibibytes} GiB`
  return {
    command: `npm run bench:locks -- ${process.argv.slice(2).join(' ')}`.trim(),
    date: new Date().toISOString().slice(0, 10),
    machine: `${size}, Node ${process.versions.node}, five Redis ${await lab.serverVersion()} on the same machine, load average ${busy.toFixed(1)} at the start`,
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
  return { tables: [], figures: [], panels: [], wrong: [`broken off: ${what}`], samples: [] }
}

function print({ machine, rounds: count, rows: measured, versions }: Report): void {
  if (smoke)
    console.log('To see that it works: each load for a moment, these figures mean nothing.')
  else console.log(`${machine}; median of ${count} rounds (lowest–highest)`)
  console.log(Object.values(versions).flat().join(', '))
  for (const { name, load, tables, seconds } of measured) {
    console.log(`\n${name}, ${Math.round(seconds)} s: ${load}\n`)
    console.log(tables.map(text).join('\n\n'))
  }
  const figures = measured.flatMap((row) => row.figures)
  if (figures.length > 0) console.log(`\n${text(figureTable(figures))}`)
}

/** Everything outside the two marks is written by hand and stays. */
async function updatePage(finished: Report): Promise<void> {
  const page = await readFile(PAGE, 'utf8')
  const from = page.indexOf(BEGIN)
  const to = page.indexOf(END)
  if (from < 0 || to < from) throw new Error(`${PAGE} must contain "${BEGIN}" and "${END}"`)
  const image = svg === undefined ? undefined : relative(dirname(PAGE), svg)
  const figures = markdown(finished, image)
  await writeFile(PAGE, `${page.slice(0, from)}${BEGIN}\n\n${figures}\n\n${page.slice(to)}`)
}

async function write(file: string, content: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, content)
}

interface Arguments {
  readonly rounds: number
  readonly smoke: boolean
  readonly json: boolean
  readonly svg: string | undefined
  readonly writesPage: boolean
  readonly chosen: typeof rows
}

function argumentsOf(args: readonly string[]): Arguments {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        rounds: { type: 'string', default: '5' },
        smoke: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        markdown: { type: 'boolean', default: false },
        svg: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    const count = Number(values.rounds)
    if (!Number.isInteger(count) || count < 1) {
      throw new Error(`Expected --rounds to be an integer >= 1, got ${values.rounds}`)
    }
    const names = positionals.length === 0 ? ['all'] : positionals
    const known = ['all', ...rows.map(({ name }) => name)]
    const unknown = names.find((name) => !known.includes(name))
    if (unknown !== undefined) throw new Error(`Expected ${known.join(', ')}, got ${unknown}`)
    if (values.markdown && values.smoke) {
      throw new Error('--markdown writes figures, and those of --smoke mean nothing')
    }
    return {
      rounds: count,
      smoke: values.smoke,
      json: values.json,
      svg: values.svg,
      writesPage: values.markdown,
      chosen: names.includes('all') ? rows : rows.filter(({ name }) => names.includes(name)),
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    console.error(`\n${USAGE}`)
    return process.exit(64)
  }
}
