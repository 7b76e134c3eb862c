/** The command line of the compared hazards; `--help` says what it takes. */
import { writeFile } from 'node:fs/promises'
import { provisionServer } from '../../scripts/provision-server.ts'
import { flag, readOptions, someOf } from '../../scripts/read-options.ts'
import { compileShim } from '../../test/faults/shimmed-clock.ts'
import { hazards } from './hazards/index.ts'
import { installPeers } from '../peers/install.ts'
import { libraries, OURS, type Library } from '../peers/libraries.ts'
import { runColumn, type Column } from './matrix.ts'
import { document, evidenceList, verdictTable, type Report } from './report.ts'

const USAGE = `The hazards that every lock library meets sooner or later: published ones and this project, side by side.

  npm run compare:safety -- [options]

  --only LIBRARY   only this one; may be given several times
  --hazard NAME    only this one; may be given several times
  --markdown       writes docs/compare-safety.md

Exit code: 0 this project passes each, 1 it fails one, 2 bad arguments, 3 a fault could not be shown to have
happened.`

/** Most of the time is spent waiting for limits, so several libraries fit on two cores. */
const LANES = 3

const given = readOptions(USAGE, {
  only: someOf(libraries.map(({ name }) => name)),
  hazard: someOf(hazards.map(({ name }) => name)),
  markdown: flag,
})
const chosen = pick(libraries, given.only)
const rows = pick(hazards, given.hazard)
const say = (line: string): void => {
  console.error(line)
}

process.on('uncaughtException', (error) => {
  console.error(error)
  process.exit(3)
})
await provisionServer({ install: true, say })
await installPeers(say)
const answer = await compileShim()
if (answer.status === 'absent') say(`Clocks of servers cannot be set: ${answer.reason}`)
const clocks = answer.status === 'ready' ? answer.shim : undefined
const startedAt = performance.now()
const columns = await inLanes(chosen)
const report: Report = {
  date: new Date().toISOString().slice(0, 10),
  node: process.version,
  seconds: Math.round((performance.now() - startedAt) / 1_000),
  command: 'npm run compare:safety',
  columns,
}
clocks?.remove()
await write(report)
const ours = columns.find(({ library }) => library.name === OURS)
const failed = Object.values(ours?.cells ?? {}).some(({ verdict }) => verdict === 'FAIL')
// At once: a library that never gave up may have left a socket behind that Node does not let go of.
process.exit(failed ? 1 : 0)

async function inLanes(queue: readonly Library[]): Promise<readonly Column[]> {
  const waiting = [...queue]
  const done: Column[] = []
  const lane = async (): Promise<void> => {
    for (let library = waiting.shift(); library !== undefined; library = waiting.shift()) {
      const { title } = library
      const column = await runColumn(library, rows, clocks, ({ name }, { verdict, evidence }) => {
        say(`${title} · ${name}: ${verdict} ${evidence}`)
      })
      done.push(column)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return queue.flatMap((library) => done.filter((column) => column.library === library))
}

async function write(finished: Report): Promise<void> {
  if (given.markdown) {
    const page = new URL('../../docs/compare-safety.md', import.meta.url)
    await writeFile(page, document(finished, rows))
  }
  console.log(`${verdictTable(finished, rows)}\n\n${evidenceList(finished, rows)}`)
}

function pick<Item extends { readonly name: string }>(
  all: readonly Item[],
  names: readonly string[],
): readonly Item[] {
  return names.length === 0 ? all : all.filter(({ name }) => names.includes(name))
}
