/** What the benchmarks have in common: a command line and its rows. */
import { cpus, totalmem } from 'node:os'
import { provisionServer } from '../scripts/provision-server.ts'
import { flag, integer, readOptions, refuse } from '../scripts/read-options.ts'
import { installPeers } from './peers/install.ts'

export interface BenchArguments<Row> {
  readonly rows: readonly Row[]
  readonly rounds: number
  readonly smoke: boolean
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
  --markdown  writes the figures of these rows into ${command.page}

Exit code: 0 measured (a figure that misses its target is only marked), 1 something went wrong that
must not at any speed, 2 bad arguments.`
  const { list, words, ...given } = readOptions(
    usage,
    { rounds: integer(), smoke: flag, list: flag, markdown: flag },
    command.rows.map(({ name }) => name),
  )
  if (given.markdown && given.smoke) refuse(usage, 'The figures of --smoke mean nothing')
  if (list) {
    console.log(command.rows.map(({ name, load }) => `${name}: ${load}`).join('\n'))
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(130)) // Servers and children end with this process.
  }
  await provisionServer({ install: true, say: console.error })
  await installPeers(console.error)
  return {
    ...given,
    rounds: given.rounds ?? (given.smoke ? 1 : rounds),
    rows:
      words.length === 0 ? command.rows : command.rows.filter(({ name }) => words.includes(name)),
  }
}

export function machine(): string {
  const model = cpus()[0]?.model ?? 'unknown processor'
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  return `${cpus().length} × ${model}, ${gibibytes} GiB, Node ${process.versions.node}`
}
