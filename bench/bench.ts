/** What the benchmarks have in common, from the command line to the page. */
import { readFile, writeFile } from 'node:fs/promises'
import { cpus, loadavg, totalmem } from 'node:os'
import { Redis } from 'ioredis'
import { markdown } from '../scripts/docs/markdown.ts'
import { provisionServer } from '../scripts/provision-server.ts'
import { flag, integer, readOptions, refuse } from '../scripts/read-options.ts'
import type { Fleet } from '../src/testing/index.ts'
import { installPeers, versionsOf } from './peers/load.ts'
import { brokenPromises, section, type Measured } from './report.ts'
import { effortOf, type Effort } from './rounds.ts'

const PAGE = 'docs/benchmark.md'
const END = '<!-- end -->'

/** One kind of load. `Harness` is where it runs. */
export interface Row<Harness> {
  readonly name: string
  /** One sentence. */
  readonly load: string
  run(harness: Harness, effort: Effort): Promise<Measured>
}

interface Benchmark<Harness> {
  /** Its name in package.json, and of its sections. */
  readonly name: string
  readonly title: string
  readonly rows: readonly Row<Harness>[]
  /** By default. */
  readonly rounds: number
  open(): Promise<Harness>
  /** What is measured. */
  readonly packages: readonly string[]
}

/** Reads the command line, measures, and ends the process. */
export async function runBenchmark<Harness extends AsyncDisposable & { readonly fleet: Fleet }>(
  benchmark: Benchmark<Harness>,
): Promise<void> {
  const { name, title, rows } = benchmark
  const names = rows.map((row) => row.name)
  const usage = `${title}

  npm run ${name} -- [row]... [options]

  row         all of these by default: ${names.join(', ')}
  --rounds N  in which the contenders take turns; the median counts (default ${benchmark.rounds})
  --smoke     every load once and small: it shows that the row works, not how fast
  --markdown  writes the figures of these rows into ${PAGE}

Exit code: 0 measured (a figure that misses its target is only marked), 1 something went wrong that
must not at any speed, 2 bad arguments.`
  const options = { rounds: integer(), smoke: flag, markdown: flag }
  const { words, smoke, ...given } = readOptions(usage, options, names)
  if (given.markdown && smoke) refuse(usage, 'The figures of --smoke mean nothing')
  const rounds = given.rounds ?? (smoke ? 1 : benchmark.rounds)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(130)) // Servers and children end with this process.
  }
  await provisionServer({ install: true, say: console.error })
  await installPeers()
  const where = machine()
  let harness = await benchmark.open()
  const redis = new Redis(harness.fleet.urls[0] ?? '')
  const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1] ?? 'unknown'
  redis.disconnect()
  const versions = [...new Set(versionsOf(benchmark.packages))].join(', ')
  const command = `npm run ${name} -- ${process.argv.slice(2).join(' ')}`.trim()
  const wrong: string[] = []
  for (const row of rows.filter((one) => words.length === 0 || words.includes(one.name))) {
    const startedAt = performance.now()
    try {
      const measured = await row.run(harness, effortOf(rounds, smoke))
      const seconds = Math.round((performance.now() - startedAt) / 1_000)
      const origin = `${new Date().toISOString().slice(0, 10)}, \`${command}\`, ${seconds} s: ${where}; Redis ${version} on the same machine; median of ${rounds} rounds (lowest–highest). ${versions}.`
      const text = await markdown(`${section(row, measured)}\n\n${origin}`, PAGE)
      console.log(text)
      if (given.markdown) await write(text, `<!-- npm run ${name} -- ${row.name} --markdown -->`)
      wrong.push(...brokenPromises(measured).map((broken) => `${row.name}, ${broken}`))
    } catch (error) {
      // A row that cannot be measured takes nothing from the others. Its load may still go on.
      console.error(error)
      wrong.push(`${row.name}, broken off: ${String(error)}`)
      await harness[Symbol.asyncDispose]()
      harness = await benchmark.open()
    }
  }
  await harness[Symbol.asyncDispose]()
  for (const what of wrong) console.error(`WRONG: ${what}`)
  // At once: a row that failed may have left connections open.
  process.exit(wrong.length > 0 ? 1 : 0)
}

function machine(): string {
  const model = cpus()[0]?.model ?? 'unknown processor'
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  const busy = `load average ${(loadavg()[0] ?? 0).toFixed(1)} at the start`
  return `${cpus().length} × ${model}, ${gibibytes} GiB, Node ${process.versions.node}, ${busy}`
}

/** Each row has two marks on the page; everything outside them is written by hand and stays. */
async function write(text: string, begin: string): Promise<void> {
  const page = await readFile(PAGE, 'utf8')
  const from = page.indexOf(begin)
  const to = page.indexOf(END, from)
  if (from < 0 || to < from) console.error(`${PAGE} has no "${begin}" with its "${END}"`)
  else await writeFile(PAGE, `${page.slice(0, from)}${begin}\n\n${text}\n${page.slice(to)}`)
}
