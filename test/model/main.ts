/** The command line of the exhaustive model; `--help` says what it takes. */
import { flag, integer, oneOf, readOptions } from '../../scripts/read-options.ts'
import { explore } from './explorer.ts'
import { REMOVABLE, type Removable } from './rules.ts'
import { scopes, scopesWithout, type NamedScope } from './scopes.ts'

const USAGE = `Visits every state of the quorum protocol for small fleets.

  npm run model -- [options]

  --small            only the scopes that the tests run too
  --without RULE     take a rule away and show what goes wrong; RULE is one of
                     ${REMOVABLE.join(', ')}
  --max-states N     give a scope up after N states (default 20000000, about 1 GB)
  --json             one JSON object per scope

Exit code: 0 nothing went wrong (with --without: something did), 1 otherwise, 2 bad arguments.`

function main(): number {
  const { small, without, maxStates, json } = readOptions(USAGE, {
    small: flag,
    without: oneOf(REMOVABLE),
    maxStates: integer(20_000_000),
    json: flag,
  })
  const chosen = chooseScopes(without, small)
  let broken = 0
  for (const { name, scope } of chosen) {
    const result = explore(scope, { maxStates, progress: progressOf(name) })
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
    const { states, complete, trace, elapsedMs } = result
    if (json) {
      console.log(JSON.stringify({ name, ...result }))
    } else {
      const verdict = result.broken ?? (complete ? 'complete, nothing broken' : 'INCOMPLETE')
      const seconds = (elapsedMs / 1000).toFixed(1)
      console.log(
        `${String(states).padStart(10)} states  ${seconds.padStart(6)} s  ${name}: ${verdict}`,
      )
      for (const [index, step] of trace.entries()) console.log(`  ${index + 1}. ${step}`)
    }
    if (result.broken !== undefined) broken++
    if (without !== undefined && broken > 0) return 0
  }
  return (without === undefined) === (broken === 0) ? 0 : 1
}

function chooseScopes(without: Removable | undefined, small: boolean): readonly NamedScope[] {
  if (without !== undefined) return scopesWithout(without)
  return small ? scopes.filter((each) => each.small) : scopes
}

function progressOf(name: string): ((states: number, waiting: number) => void) | undefined {
  if (!process.stderr.isTTY) return undefined
  return (states, waiting) => {
    process.stderr.write(`\r\x1b[K${states} states, ${waiting} waiting  ${name}`)
  }
}

process.exitCode = main()
