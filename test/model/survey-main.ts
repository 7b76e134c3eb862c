/** The command line of the survey; `--help` says what it takes. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SeededRandom } from '../sim/seeded-random.ts'
import { failedTests, inParallel, ROOT, violations, withCopy } from './mutant-runner.ts'
import { changesOf, whyHarmless, type Change } from './survey.ts'

const USAGE = `Changes every decision of the lock core a little, and says which changes no test notices.

  npm run survey -- [options]

  --file TEXT    only files whose path contains TEXT
  --sample N     only N of the changes, by chance
  --seed S       of the chance (default 1)
  --jobs N       at a time (default 2)
  --list         the changes, without running anything
  --json         one JSON object per change

A survivor is a question: is this decision held by nothing, or does the change make no difference?
Changes that break no rule are known, and each says why. Exit code 0, 2 bad arguments.`

const FILES = [
  ...['quorum/quorum', 'quorum/poll', 'attempt', 'quorum-lease', 'fleet/quarantines'],
  ...['fleet/clock-watch', 'fleet/enrol-scripts', 'verbs/votes', 'verbs/acquire'],
  ...['verbs/confirm', 'verbs/extend', 'verbs/heal', 'verbs/release', 'verbs/library'],
].map((name) => `src/redlock/${name}.ts`)
const OTHERS = ['src/lock/trust.ts', 'src/lock/held-lease.ts', 'src/redlock/wire/enrolment.ts']

/** One after the other, until one of them notices. */
const QUICK = [
  ...['redlock/pure', 'redlock/verbs/', 'redlock/fleet/', 'redlock/suspended-vote', 'lock/'],
  ...['redlock/closing', 'redis/grant-scripts', 'redis/renewal-scripts', 'redis/enrolment-s'],
  ...['redis/batching', 'sim/'],
].map((name) => `test/${name}`)
/** Does not run Lua. */
const SEEDS = 60
const SLOW = [
  ...['redlock/redlock.test', 'redlock/coordination', 'redlock/foreign'],
  ...['hazards/', 'redis/enrolment.test', 'redis/master.test', 'redis/s', 'redis/unsent'],
  ...['model/conformance', 'testing/lock-service-cases'],
  ...['odd-replies', 'wrong-fleets', 'sick-masters', 'masters-forget', 'clocks'].map(
    (name) => `faults/${name}`,
  ),
].map((name) => `test/${name}`)

interface Mutation extends Change {
  readonly file: string
  readonly found: string
  /** Why it breaks no rule, where that is known. */
  readonly why: string | undefined
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      file: { type: 'string', default: '' },
      sample: { type: 'string' },
      seed: { type: 'string', default: '1' },
      jobs: { type: 'string', default: '2' },
      list: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const files = [...FILES, ...OTHERS].filter((file) => file.includes(values.file))
  const all = (await Promise.all(files.map(mutationsOf))).flat()
  const [jobs, size] = [Number(values.jobs), Number(values.sample ?? all.length)]
  if (values.help || all.length === 0 || ![jobs, size].every(Number.isInteger)) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  const random = new SeededRandom(Number(values.seed))
  const rest = [...all]
  const queue = Array.from({ length: Math.min(size, all.length) }, () =>
    rest.splice(random.integer(0, rest.length - 1), 1),
  ).flat()
  const total = queue.length
  if (values.list) for (const mutation of queue.splice(0)) console.log(inWords(mutation))
  let survived = 0
  let done = 0
  await inParallel(queue, jobs, async (mutation) => {
    const { why } = mutation
    const by = why === undefined ? await noticedBy(mutation) : `it breaks no rule: ${why}`
    done++
    if (by === undefined) survived++
    const { file, line, found, replace } = mutation
    if (values.json) console.log(JSON.stringify({ file, line, found, replace, noticedBy: by }))
    else
      console.log(`${by === undefined ? 'SURVIVED' : 'noticed '} ${inWords(mutation)} ${by ?? ''}`)
  })
  if (!values.json)
    console.log(`${done} of ${total} changes of ${all.length}: ${survived} survived`)
  return 0
}

async function mutationsOf(file: string): Promise<readonly Mutation[]> {
  const text = await readFile(join(ROOT, file), 'utf8')
  const found = ({ from, to }: Change): string => text.slice(from, to)
  return changesOf(file, text).map((change) => {
    const mutation = { ...change, file, found: found(change) }
    return { ...mutation, why: whyHarmless(mutation, text) }
  })
}

/** @returns what noticed it first. */
function noticedBy(mutation: Mutation): Promise<string | undefined> {
  const { file, from, to, replace, isLua } = mutation
  return withCopy(async (directory) => {
    const path = join(directory, file)
    const text = await readFile(path, 'utf8')
    await writeFile(path, text.slice(0, from) + replace + text.slice(to))
    const steps = [
      () => failedTests(directory, QUICK),
      ...(isLua ? [] : [() => violations(directory, SEEDS)]),
      () => failedTests(directory, SLOW),
    ]
    try {
      for (const step of steps) {
        const [failure] = await step()
        if (failure !== undefined) return failure
      }
      return undefined
    } catch {
      return 'it does not run'
    }
  })
}

function inWords({ file, line, found, replace }: Mutation): string {
  const short = (text: string): string => JSON.stringify(text.replace(/\s+/g, ' ').slice(0, 60))
  return `${file}:${line} ${short(found)} → ${short(replace)}`
}

process.exitCode = await main()
