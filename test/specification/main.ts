/** The command line of the specification; `--help` says what it takes. */
import { availableParallelism } from 'node:os'
import { flag, integer, readOptions, refuse, text } from '../../scripts/read-options.ts'
import { inParallel } from '../model/mutant-runner.ts'
import { removals, scopes, type Scope } from './models.ts'
import { missing, verify, type Verdict } from './spin.ts'

const USAGE = `Asks Spin whether the models in spec/ keep what is promised, and break it without each rule.

  npm run spec -- [options]

  --small        only the models that the tests run too, and no rule taken away
  --rule TEXT    take away only the rules whose name contains TEXT, and show the steps
  --jobs N       at a time (default ${Math.min(2, availableParallelism())})
  --json         one JSON object per run

Exit code: 0 all is as docs/specification.md says, 1 it is not, 2 bad arguments, 64 Spin or a C compiler is
not installed.`

interface Run {
  readonly name: string
  readonly scope: Scope
  readonly without?: string
  /** The property that must not hold; undefined where all must. */
  readonly breaks?: string
}

async function main(): Promise<number> {
  const { small, rule, jobs, json } = readOptions(USAGE, {
    small: flag,
    rule: text(),
    jobs: integer(Math.min(2, availableParallelism())),
    json: flag,
  })
  const runs = chosen(rule, small)
  if (runs.length === 0) refuse(USAGE, `No rule has "${rule ?? ''}" in its name`)
  const obstacle = missing()
  if (obstacle !== undefined) {
    console.error(obstacle)
    return 64
  }
  let wrong = 0
  await inParallel([...runs], jobs, async (run) => {
    const verdict = await verify(run.scope, run.without)
    if (verdict.broken !== run.breaks) wrong++
    console.log(json ? JSON.stringify({ ...run, ...verdict }) : lineOf(run, verdict))
    if (json || (verdict.broken === run.breaks && rule === undefined)) return
    for (const [index, step] of verdict.steps.entries()) console.log(`  ${index + 1}. ${step}`)
  })
  if (!json)
    console.log(`${runs.length} runs: ${runs.length - wrong} as they must be, ${wrong} not`)
  return wrong === 0 ? 0 : 1
}

function chosen(rule: string | undefined, small: boolean): Run[] {
  const whole = scopes
    .filter(({ isSmall }) => isSmall || !small)
    .map((scope) => ({ name: nameOf(scope), scope }))
  const without = removals
    .filter((each) => each.rule.includes(rule ?? ''))
    .map(({ rule: name, scope, breaks }) => {
      return { name: `${nameOf(scope)} without ${name}`, scope, without: name, breaks }
    })
  if (rule !== undefined) return without
  return small ? whole : [...whole, ...without]
}

const nameOf = ({ model, defines }: Scope): string => [model, ...defines].join(' ')

function lineOf({ name, breaks }: Run, { broken, states, seconds }: Verdict): string {
  const isRight = broken === breaks
  const found = broken === undefined ? 'nothing broken' : `${broken} does not hold`
  const wanted = isRight ? '' : `, expected ${breaks ?? 'nothing broken'}`
  const words = `${name}: ${found}${wanted}`
  const mark = isRight ? 'ok   ' : 'WRONG'
  return `${mark} ${String(states).padStart(9)} states ${seconds.toFixed(1).padStart(6)} s  ${words}`
}

process.exitCode = await main()
