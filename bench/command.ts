/** What the benchmarks have in common: a command line and its rows. */
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { provisionServer } from '../scripts/provision-server.ts'
import { installPeers } from './peers/install.ts'

export interface BenchArguments<Row> {
  readonly rows: readonly Row[]
  readonly rounds: number
  readonly smoke: boolean
  readonly json: boolean
  readonly markdown: boolean
}

interface BenchCommand<Row> {
  /** Its name in package.json. */
  readonly name: string
  readonly title: string
  readonly rows: readonly Row[]
  /** By default. */
  readonly rounds: number
  /** What `--markdown` writes. */
  readonly page: string
}

/** Reads the command line, and installs what is measured. Ends the process where that is all. */
export async function startBench<Row extends { readonly name: string; readonly load: string }>(
  command: BenchCommand<Row>,
): Promise<BenchArguments<Row>> {
  const { rounds } = command
  const usage = `${command.title}

  npm run ${command.name} -- [row]... [options]

  row         all of these by default: ${command.rows.map(({ name }) => name).join(', ')}
  --rounds N  in which the contenders take turns; the median counts (default ${rounds})
  --smoke     every load once and small: it shows that the row works, not how fast
  --list      the rows and their loads
  --json      one JSON object
  --markdown  writes the figures of these rows into ${command.page}

Exit code: 0 measured (a figure that misses its target is only marked), 1 something went wrong that
must not at any speed, 64 bad arguments.`
  const chosen = argumentsOf(command.rows, rounds, usage)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(130)) // Servers and children end with this process.
  }
  await provisionServer({ install: true, say: console.error })
  await installPeers(console.error)
  return chosen
}

function argumentsOf<Row extends { readonly name: string; readonly load: string }>(
  rows: readonly Row[],
  defaultRounds: number,
  usage: string,
): BenchArguments<Row> {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        rounds: { type: 'string' },
        smoke: { type: 'boolean', default: false },
        list: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        markdown: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const { help, list, rounds: given, ...flags } = values
    if (help || list) {
      console.log(help ? usage : rows.map(({ name, load }) => `${name}: ${load}`).join('\n'))
      process.exit(0)
    }
    const rounds = Number(given ?? (flags.smoke ? 1 : defaultRounds))
    if (!Number.isInteger(rounds) || rounds < 1) {
      throw new Error(`Expected --rounds to be an integer >= 1, got ${given ?? ''}`)
    }
    if (flags.markdown && flags.smoke) throw new Error('The figures of --smoke mean nothing')
    const unknown = positionals.filter((name) => !rows.some((row) => row.name === name))
    if (unknown.length > 0) throw new Error(`There is no row ${unknown.join(', ')}`)
    const wanted = rows.filter(({ name }) => positionals.includes(name))
    return { ...flags, rounds, rows: wanted.length > 0 ? wanted : rows }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`)
    process.exit(64)
  }
}

export function machine(): string {
  const model = cpus()[0]?.model ?? 'unknown processor'
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  return `${cpus().length} × ${model}, ${gibibytes} GiB, Node ${process.versions.node}`
}
