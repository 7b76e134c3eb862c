/** The command line of the coordination benchmark; `--help` says what it takes. */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { provisionServer } from '../../scripts/provision-server.ts'
import { installPeers } from '../compare-safety/install-peers.ts'
import { Lab } from './lab.ts'
import { meets, type Figure } from './row.ts'
import { rows } from './rows/index.ts'

const USAGE = `How well jobs that share a resource are coordinated: order, wasted work, hand-offs, overhead.

  npm run bench:coordination -- [options]

  --rounds N   of each load; the median counts (default 5)
  --only TEXT  only loads whose name contains TEXT
  --list       the loads
  --json       one JSON object

Exit code: 0 every correctness figure holds (speed that misses its target is only marked), 1 otherwise, 2 bad arguments.`

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', default: '' },
    list: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const count = Number(values.rounds)
const chosen = rows.filter(({ name }) => name.includes(values.only))
if (values.help || values.list) {
  console.log(values.help ? USAGE : rows.map(({ name, load }) => `${name}: ${load}`).join('\n'))
  process.exit(0)
}
if (!Number.isInteger(count) || count < 1 || chosen.length === 0) {
  console.error(USAGE)
  process.exit(2)
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => process.exit(130)) // Servers and workers end with this process.
}

await provisionServer({ install: true, say: console.error })
await installPeers(console.error)
const machine = `Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model ?? 'cpu'}`
const results: { name: string; load: string; figures: readonly Figure[] }[] = []
if (!values.json) console.log(`${machine}, median of ${count} rounds`)
{
  await using lab = await Lab.open()
  for (const row of chosen) {
    const figures = await row.run(lab, count)
    results.push({ name: row.name, load: row.load, figures })
    if (!values.json) print(row.name, row.load, figures)
  }
}
const wrong = results.some(({ figures }) =>
  figures.some((figure) => figure.kind === 'correctness' && !meets(figure)),
)
if (values.json) console.log(JSON.stringify({ machine, rounds: count, results, ok: !wrong }))
process.exitCode = wrong ? 1 : 0

function print(name: string, load: string, figures: readonly Figure[]): void {
  console.log(`\n${name}: ${load}`)
  for (const figure of figures) {
    const { value, unit = '', atMost, atLeast, kind } = figure
    const target =
      atMost !== undefined ? `≤ ${atMost}` : atLeast !== undefined ? `≥ ${atLeast}` : ''
    const verdict =
      target === '' ? '' : meets(figure) ? 'ok' : kind === 'correctness' ? 'WRONG' : 'missed'
    const shown = `${value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(2)} ${unit}`
    console.log(`  ${figure.name.padEnd(52)} ${shown.padStart(12)}  ${target.padEnd(7)} ${verdict}`)
  }
}
