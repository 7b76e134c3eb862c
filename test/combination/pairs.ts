/**
 * Which features met on one line, and worked: the page `docs/pairs.md` is made of it. An option is
 * of all lines of its episode, a job of its resources, and an operation of what it was done to.
 */
import { ALL_FEATURES, APART, FEATURES, REFUSED, type Feature } from './draw.ts'
import type { Done, History } from './history.ts'
import { Knowledge, type Known } from './known.ts'

/** What a job must have for a feature that is no option and no operation. */
const OF_JOBS: Partial<Record<Feature, (job: Known) => boolean>> = {
  'several resources': ({ resources }) => resources.length > 1,
  'two producers': ({ add: { operation } }) => 'by' in operation && operation.by === 1,
  'plain producer': ({ add: { operation } }) => 'by' in operation && operation.by === 'plain',
  priority: ({ plan }) => plan.opts.priority !== undefined,
  lifo: ({ plan }) => plan.opts.lifo === true,
  'own ids': ({ plan }) => plan.opts.jobId !== undefined,
  deduplication: ({ plan }) => plan.opts.deduplication !== undefined,
  'flows of a plain queue': ({ add: { operation } }) =>
    operation.do === 'flow' && operation.across === true,
  'own timestamps': ({ plan }) => plan.opts.timestamp !== undefined,
  'own limits': ({ plan }) => plan.opts.sizeLimit !== undefined,
  'removal by job': ({ plan }) =>
    plan.opts.removeOnComplete !== undefined || plan.opts.removeOnFail !== undefined,
  'jobs that move': ({ plan, runs }) => plan.data.work.moves !== undefined && runs.length > 0,
  'jobs that tell': ({ plan, runs }) => plan.data.work.tells === true && runs.length > 0,
  'forgotten steps': ({ plan, runs }) => plan.data.work.forgets === true && runs.length > 0,
  failures: ({ plan, runs }) => plan.data.work.fails > 0 && runs.length > 0,
  backoff: ({ plan, runs }) => plan.opts.backoff !== undefined && runs.length > 0,
  unrecoverable: ({ plan, runs }) => plan.data.work.isFinal === true && runs.length > 0,
  steps: ({ runs }) => runs.some(({ steps }) => steps.length > 0),
  'rate limit in a job': ({ plan, runs }) => plan.data.work.restMs !== undefined && runs.length > 0,
  'deaf jobs': ({ plan, runs }) => plan.data.work.isDeaf === true && runs.length > 0,
  'long jobs': ({ plan, runs }) => plan.data.work.ms >= 20 && runs.length > 0,
}

export class Pairs {
  /** Episodes in which two features met on one line. */
  readonly #met = new Map<string, number>()
  #episodes = 0

  /** Goes on from what a page says: a feature that it lacks has met none. */
  static from(page: string): Pairs {
    const pairs = new Pairs()
    pairs.#episodes = Number(/of (\d+) episodes/.exec(page)?.[1] ?? 0)
    const rows = [...page.matchAll(ROW)]
    for (const [, , one = '', cells = ''] of rows) {
      for (const [index, cell] of Array.from(cells).entries()) {
        const times = cell === '+' ? MANY : Number(cell)
        const other = rows[index]?.[2]
        if (times > 0 && other !== undefined) pairs.#met.set([one, other].sort().join(' + '), times)
      }
    }
    return pairs
  }

  add(history: History): void {
    this.#episodes += 1
    const pairs = new Set<string>()
    for (const features of featuresOfLines(history).values()) {
      const list = ALL_FEATURES.filter((name) => features.has(name))
      for (const one of list) for (const other of list) pairs.add(keyOf(one, other))
    }
    for (const pair of pairs) this.#met.set(pair, (this.#met.get(pair) ?? 0) + 1)
  }

  /** Two features that may be combined and never met. */
  missing(): readonly (readonly [Feature, Feature])[] {
    return pairs().filter(([one, other]) => this.#cell(one, other) === '0')
  }

  #count(): Readonly<Record<'all' | 'met' | 'refused' | 'apart' | 'missing', number>> {
    const cells = pairs().map(([one, other]) => this.#cell(one, other))
    const times = (cell: string): number => cells.filter((each) => each === cell).length
    const [refused, apart, missing] = [times('x'), times('-'), times('0')]
    const met = cells.length - refused - apart - missing
    return { all: cells.length, met, refused, apart, missing }
  }

  page(): string {
    const rows = ALL_FEATURES.map((one, row) => {
      const cells = ALL_FEATURES.slice(0, row).map((other) => this.#cell(one, other))
      return `${String(row + 1).padStart(2)} ${one.padEnd(21)} ${cells.join('')}`
    })
    const refused = REFUSED.map(
      ([one, other, file, title]) => `- ${one} + ${other}: \`${file}\`, _${title}_`,
    )
    const apart = APART.map(([one, other, why]) => `- ${one} + ${other}: ${why}`)
    const cells = this.#count()
    return [
      '# Pairs of features',
      '',
      'Each two features were used together, with faults, and judged. `npm run docs:pairs` writes this',
      'page from the episodes that `npm run combine` draws. [safety.md](safety.md) says what must hold.',
      '',
      'Each row and each column is a feature; the columns have the numbers of the rows. A cell says in',
      `how many of ${this.#episodes} episodes both were at work on one line: \`1\` to \`9\`, and \`+\` for ten or`,
      'more. `x`: refused or reported where it is set. `-`: cannot be written together. `0`: not met yet.',
      '',
      `Of ${cells.all} cells, ${cells.met} are covered (${((100 * cells.met) / cells.all).toFixed(1)} %), ${cells.refused} refused, ${cells.apart} apart, ${cells.missing} empty.`,
      '',
      '```',
      ...rows,
      '```',
      '',
      '## Refused or reported',
      '',
      'The test beside a pair shows it.',
      '',
      ...refused,
      '',
      '## Apart',
      '',
      ...apart,
      '',
    ].join('\n')
  }

  #cell(one: Feature, other: Feature): string {
    if (isListed(REFUSED, one, other)) return 'x'
    if (isListed(APART, one, other)) return '-'
    const times = this.#met.get(keyOf(one, other)) ?? 0
    return times >= MANY ? '+' : String(times)
  }
}

const MANY = 10
/** A row of the page: its number, its feature, its cells. */
export const ROW: RegExp = /^ *(\d+) (.+?)(?: +([-+x\d]+))? *$/gm

function pairs(): readonly (readonly [Feature, Feature])[] {
  return ALL_FEATURES.flatMap((one, index) =>
    ALL_FEATURES.slice(index + 1).map((other) => [one, other] as const),
  )
}

function keyOf(one: Feature, other: Feature): string {
  return [one, other].sort().join(' + ')
}

function isListed(
  list: readonly (readonly [Feature, Feature, ...unknown[]])[],
  one: Feature,
  other: Feature,
): boolean {
  return list.some(([a, b]) => keyOf(a, b) === keyOf(one, other))
}

function featuresOfLines(history: History): ReadonlyMap<string, ReadonlySet<Feature>> {
  const knowledge = new Knowledge(history)
  const features = history.plan.features as readonly Feature[]
  const lines = new Map<string, Set<Feature>>()
  for (const job of knowledge.jobs) for (const name of job.resources) lines.set(name, new Set())
  const put = (feature: Feature, names: Iterable<string>): void => {
    for (const name of names) lines.get(name)?.add(feature)
  }
  for (const feature of features) {
    if ('settings' in FEATURES[feature]) put(feature, lines.keys())
    const isOfJob = OF_JOBS[feature]
    if (isOfJob === undefined) continue
    for (const job of knowledge.jobs) if (isOfJob(job)) put(feature, job.resources)
  }
  for (const done of history.done) {
    const { of } = done.operation
    if (of === undefined || done.error !== undefined || done.answer === 'absent') continue
    put(of as Feature, resourcesOf(done, knowledge) ?? lines.keys())
  }
  return lines
}

/** Undefined for all. */
function resourcesOf(
  done: Done,
  { byUid, jobs, history }: Knowledge,
): readonly string[] | undefined {
  const { operation } = done
  if ('uid' in operation) return byUid.get(operation.uid)?.resources ?? []
  if ('resource' in operation) return [history.prefix + operation.resource]
  if (operation.do === 'addBeside') {
    return operation.jobs.flatMap(({ data }) => data.resources.map((name) => history.prefix + name))
  }
  const added = jobs.filter(({ add }) => add === done)
  return added.length === 0 ? undefined : added.flatMap(({ resources }) => resources)
}
