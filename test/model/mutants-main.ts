/** The command line of the mutants; `--help` says what it takes. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { flag, integer, readOptions, refuse, text } from '../../scripts/read-options.ts'
import { SeededRandom } from '../sim/seeded-random.ts'
import { failuresOf, inParallel, withCopy } from './mutant-runner.ts'
import { mutants, type Mutant } from './mutants.ts'
import { changed, rulePlaces } from './rule-comments.ts'

const USAGE = `Takes one rule away at a time; the test that is named for it must fail.

  npm run mutants -- [options]

  --rule TEXT    only rules whose name contains TEXT
  --combined     only rules that the combinations must notice
  --sample N     only N of them, by chance
  --seed S       of the chance
  --jobs N       at a time (default 2)
  --json         one JSON object per mutant

Each mutant is a copy of the project in a temporary directory with one rule less. Its own test, its seeds of the simulation,
or its combinations run on it and nothing else. Exit code: 0 all were killed, 1 otherwise, 2 bad arguments.`

interface Verdict {
  readonly rule: string
  readonly killed: boolean
  /** Which tests failed, or which property of which seed; or why it was not killed. */
  readonly detail: string
  readonly seconds: number
}

async function main(): Promise<number> {
  const {
    rule: part,
    combined,
    sample: size,
    seed,
    jobs,
    json,
  } = readOptions(USAGE, {
    rule: text(''),
    combined: flag,
    sample: integer(),
    seed: integer(Math.floor(Math.random() * 1e6), 0),
    jobs: integer(2),
    json: flag,
  })
  const found = mutants.filter(
    ({ rule, killedBy }) => rule.includes(part) && (!combined || 'episodes' in killedBy),
  )
  if (found.length === 0) refuse(USAGE, `No rule has "${part}" in its name`)
  const queue = size === undefined ? [...found] : sample(found, size, seed)
  const verdicts: Verdict[] = []
  await inParallel(queue, jobs, async (mutant) => {
    const verdict = await judge(mutant)
    verdicts.push(verdict)
    const { rule, killed, detail, seconds } = verdict
    const words = `${killed ? 'killed  ' : 'SURVIVED'} ${rule}: ${detail} (${seconds} s)`
    console.log(json ? JSON.stringify(verdict) : words)
  })
  const killed = verdicts.filter((verdict) => verdict.killed).length
  const chance = size === undefined ? '' : ` (--sample ${size} --seed ${seed})`
  const closing = `${verdicts.length} of ${mutants.length} mutants: ${killed} killed, ${verdicts.length - killed} survived${chance}`
  if (!json) console.log(closing)
  return killed === verdicts.length ? 0 : 1
}

function sample(found: readonly Mutant[], size: number, seed: number): Mutant[] {
  const random = new SeededRandom(seed)
  const rest = [...found]
  const chosen: Mutant[] = []
  while (chosen.length < size && rest.length > 0) {
    chosen.push(...rest.splice(random.integer(0, rest.length - 1), 1))
  }
  return chosen
}

async function judge({ rule, change, killedBy }: Mutant): Promise<Verdict> {
  const startedAt = performance.now()
  try {
    const failures = await withCopy(async (directory) => {
      const [place, another] = rulePlaces(directory).filter((each) => each.rule === rule)
      if (place === undefined || another) throw new Error(`Expected one comment \`rule: ${rule}\``)
      const file = join(directory, place.file)
      await writeFile(file, changed(await readFile(file, 'utf8'), place, change))
      return failuresOf(killedBy, directory)
    })
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    if (failures.length > 0) return { rule, killed: true, detail: failures.join(' · '), seconds }
    return { rule, killed: false, detail: `by ${JSON.stringify(killedBy)}`, seconds }
  } catch (error) {
    // A rule that has gone, or a test that did not run: as bad as a survivor.
    return { rule, killed: false, detail: error instanceof Error ? error.message : '', seconds: 0 }
  }
}

process.exitCode = await main()
