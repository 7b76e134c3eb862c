/** The command line of the compared hazards; `--help` says what it takes. */
import { writeFile } from 'node:fs/promises'
import { markdown } from '../../scripts/docs/markdown.ts'
import { provisionServer } from '../../scripts/provision-server.ts'
import { flag, readOptions } from '../../scripts/read-options.ts'
import { compileShim } from '../../test/faults/shimmed-clock.ts'
import { libraries, OURS } from '../peers/libraries.ts'
import { installPeers, versionsOf } from '../peers/load.ts'
import { markdownTable } from '../report.ts'
import { type Cell, type Hazard, openLibrary } from './bench.ts'
import { hazards } from './hazards.ts'

const USAGE = `The hazards that every lock library meets sooner or later: published ones and this project, side by side.

  npm run compare:safety -- [options]

  --markdown  writes docs/compare-safety.md

Exit code: 0 this project passes each, 1 it fails one, 2 bad arguments, 3 a fault could not be shown to have
happened.`

const PAGE = 'docs/compare-safety.md'
/** Most of the time is spent waiting for limits, so several libraries fit on two cores. */
const LANES = 3

const given = readOptions(USAGE, { markdown: flag })
process.on('uncaughtException', (error) => {
  console.error(error)
  process.exit(3)
})
await provisionServer({ install: true, say: console.error })
await installPeers()
const answer = await compileShim()
if (answer.status === 'absent') console.error(`Clocks of servers cannot be set: ${answer.reason}`)
const clocks = answer.status === 'ready' ? answer.shim : undefined
const startedAt = performance.now()
/** By library and hazard. */
const cells = new Map<string, Cell>()
await Promise.all(Array.from({ length: LANES }, (_, lane) => runLane(lane)))
clocks?.remove()
const page = await markdown(pageOf(), PAGE)
console.log(page)
if (given.markdown) await writeFile(PAGE, page)
const failed = hazards.some((hazard) => cell(OURS, hazard).verdict === 'FAIL')
// At once: a library that never gave up may have left a socket behind that Node does not let go of.
process.exit(failed ? 1 : 0)

async function runLane(lane: number): Promise<void> {
  for (const { name: library } of libraries.filter((_, index) => index % LANES === lane)) {
    await using tested = await openLibrary(library, clocks)
    for (const hazard of hazards) {
      const found = await tested.meet(hazard)
      console.error(`${library} · ${hazard.title}: ${found.verdict} ${found.evidence}`)
      cells.set(`${library} ${hazard.title}`, found)
    }
  }
}

function cell(library: string, { title }: Hazard): Cell {
  const found = cells.get(`${library} ${title}`)
  if (found === undefined) throw new Error(`${title} was not measured with ${library}`)
  return found
}

function pageOf(): string {
  const passed = libraries.map((library) => {
    const count = hazards.filter((hazard) => cell(library.name, hazard).verdict === 'pass').length
    return `**${count} of ${hazards.length}**`
  })
  const verdicts = markdownTable([
    ['', ...libraries.map(({ title }) => title)],
    ...hazards.map((hazard) => [
      hazard.title,
      ...libraries.map((library) => cell(library.name, hazard).verdict),
    ]),
    ['**passed**', ...passed],
  ])
  const notes = libraries.flatMap(({ title, note }) => (note ? [`- ${title}: ${note}.`] : []))
  const measured = hazards.map((hazard) => {
    const { title, scenario } = hazard
    const lines = libraries.map((library) => {
      const { verdict, evidence } = cell(library.name, hazard)
      return `- ${library.title}: ${verdict}. ${evidence}`
    })
    const sentence = scenario.charAt(0).toUpperCase() + scenario.slice(1)
    return `### ${title}\n\n${sentence}.\n\n${lines.join('\n')}`
  })
  return `# Lock libraries against the same hazards

What published Redlock libraries for JavaScript do when something goes wrong, measured on five real Redis masters with
a fault proxy in front of each. \`n/a\` means that the library makes no such promise or never came to the point. Times are
of this run on this machine; verdicts are what to compare.

${verdicts}

Run on ${new Date().toISOString().slice(0, 10)} with \`npm run compare:safety\`, Node ${process.version}, in ${Math.round((performance.now() - startedAt) / 1_000)} s. The command fails when
bullmq-redlock fails a row, or when a fault did not take place.

## Versions and configuration

${libraries.map(({ packages }) => `- ${versionsOf(packages).join(', ')}`).join('\n')}

Each library has one ioredis client for each master with ioredis' defaults, which is how all of them are documented. Where
a row fails and a connection setting helps, the row says so. In their favour:

${notes.join('\n')}

## What was measured

${measured.join('\n\n')}
`
}
