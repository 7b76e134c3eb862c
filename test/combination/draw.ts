/** Draws a plan from a seed: some features at a time, so that each meets each other often. */
import { SeededRandom } from '../sim/seeded-random.ts'
import {
  DEFAULTS,
  type Action,
  type JobOptions,
  type JobPlan,
  type Operation,
  type Plan,
  type Producer,
  type Settings,
} from './plan.ts'

/** What actions of an episode are drawn from. */
export interface Draw {
  readonly random: SeededRandom
  readonly has: (feature: Feature) => boolean
  readonly settings: Settings
  /** A job that was added before: the last ones more often, and those that can be meant. */
  uid(kind?: Meant): string
  /** A new one. */
  job(more?: JobOptions): JobPlan
  /** A new one for the second queue. */
  jobBeside(): JobPlan
  isOfFlow(job: JobPlan): void
  resource(): string
  producer(): Producer
  worker(): number
}

/** `alone`: in no flow. */
type Meant = 'failing' | 'delayed' | 'long' | 'alone'

interface Options {
  readonly settings: Settings
  readonly random: SeededRandom
}

interface FeatureRules {
  /** What it changes of the options. */
  readonly settings?: Partial<Settings> | ((draw: Options) => Partial<Settings>)
  /** An action that it brings. */
  readonly action?: (draw: Draw) => Action
  /** In so many of a hundred operations; 6 where it says nothing. */
  readonly weight?: number
  /** It takes seconds: drawn less often. */
  readonly isSlow?: boolean
}

const QUEUE_FAULTS = ['freeze', 'pause', 'drop', 'refuse', 'replicas', 'full'] as const
const MASTER_FAULTS = ['kill', 'forget', 'freeze', 'cut'] as const
const NOTES = ['progress', 'progressById', 'log', 'logById', 'clearLogs', 'deduplication'] as const
/** Shorter than a lease, and longer than a lease, BullMQ's lock and its check for stalled jobs. */
const FREEZES_MS = [20, 100, 200, 700, 1_200, 1_500, 1_800, 4_500, 4_500] as const
/** Of one tenant, while another one has a few. */
const BACKLOG = 40
const MS = { short: [0, 12], delay: [0, 150] } as const

/** Everything that a user can combine. */
export const FEATURES = {
  // Options.
  relaxed: { settings: { order: 'relaxed' } },
  slots: { settings: ({ random }) => ({ slots: random.integer(2, 3) }) },
  'slots by job': { settings: ({ random }) => ({ slots: random.integer(2, 3), slotsByJob: true }) },
  'several resources': {},
  'within priority': { settings: { within: 'priority' } },
  block: { settings: { onFailure: 'block' } },
  dedupe: { settings: { dedupe: { fresh: false, byKey: false } } },
  'dedupe fresh': {
    settings: ({ settings }) => ({
      dedupe: { fresh: true, byKey: settings.dedupe?.byKey ?? false },
    }),
  },
  'dedupe key': {
    settings: ({ settings }) => ({
      dedupe: { fresh: settings.dedupe?.fresh ?? false, byKey: true },
    }),
  },
  checkpoints: { settings: { checkpoints: true } },
  'burst length': {
    settings: ({ random }) => ({ burstMs: random.pick([0, 0, 500, 3_000]) }),
  },
  maxWaitMs: { settings: ({ random }) => ({ maxWaitMs: random.pick([100, 300, 1_000]) }) },
  maxLength: {
    settings: ({ random }) => ({
      maxLength: random.integer(1, 5),
      whenFull: random.pick(['refuse', 'drop-oldest', 'drop-newest']),
    }),
  },
  'rate by job': { settings: ({ random }) => ({ rate: rate(random) }) },
  tenants: { settings: { tenant: true } },
  weights: { settings: { weight: true } },
  batches: {
    settings: ({ random }) => ({
      batch: { size: random.integer(2, 4), waitMs: random.pick([0, 0, 10]) },
    }),
  },
  concurrency: { settings: ({ random }) => ({ concurrency: random.pick([1, 5, 10]) }) },
  'several workers': {
    settings: ({ settings }) => ({ workers: [...settings.workers, 'process'] }),
    action: () => ({ do: 'startWorker', in: 'process' }),
    weight: 2,
  },
  'plain workers': { settings: { order: 'relaxed', plainWorkers: true } },
  costs: {
    settings: ({ settings, random }) => ({ rate: settings.rate ?? rate(random), costs: true }),
  },
  'tuned workers': { settings: { tuned: true } },
  prefix: { settings: { prefix: 'combined' } },
  defaultJobOptions: { settings: { defaultJobOptions: true } },
  'worker processes': {
    settings: ({ settings }) => ({ workers: ['child', ...settings.workers.slice(1)] }),
    isSlow: true,
  },
  removeOnComplete: { settings: ({ random }) => ({ removeOnComplete: random.pick([true, 2]) }) },
  removeOnFail: { settings: ({ random }) => ({ removeOnFail: random.pick([true, 2]) }) },
  limiter: {
    settings: ({ random }) => ({
      limiter: { max: random.integer(1, 4), duration: random.integer(20, 60) },
    }),
  },
  // Ways to add.
  addBulk: {
    action: (draw) => ({
      ...{ do: 'addBulk', by: draw.producer() },
      jobs: Array.from({ length: draw.random.integer(2, 6) }, () => draw.job()),
    }),
    weight: 12,
  },
  'two producers': {},
  'two queues': {
    action: (draw): Action => ({
      ...{ do: 'addBeside', by: draw.has('relaxed') ? 'plain' : 0 },
      jobs: Array.from({ length: draw.random.integer(1, 6) }, () => draw.jobBeside()),
    }),
    weight: 12,
  },
  'plain producer': {},
  delay: {
    action: (draw) => ({
      ...{ do: 'add', by: draw.producer() },
      job: draw.job({ delay: draw.random.integer(...MS.delay) }),
    }),
    weight: 12,
  },
  priority: {},
  lifo: {},
  'own ids': {},
  deduplication: {},
  flows: {
    action: (draw): Action => {
      // With neither, the parent of a child that failed waits for good, as BullMQ says.
      const child = draw.random.pick([
        { failParentOnFailure: true },
        { ignoreDependencyOnFailure: true },
        { continueParentOnFailure: true },
        { removeDependencyOnFailure: true },
      ])
      // An id that is used again would make a job its own parent, or that of one that runs.
      const fresh = (job: JobPlan): JobPlan => {
        const { jobId: _, ...opts } = job.opts
        draw.isOfFlow(job)
        return { ...job, opts }
      }
      return {
        ...{ do: 'flow', parent: fresh(draw.job()), bulk: draw.random.chance(0.3) },
        ...(draw.has('flows of a plain queue') && { across: draw.random.chance(0.7) }),
        children: Array.from({ length: draw.random.integer(1, 3) }, () => fresh(draw.job(child))),
      }
    },
  },
  'flows of a plain queue': {},
  'children that are removed': {
    action: (draw) => ({ do: 'orphan', uid: draw.uid() }),
    weight: 4,
  },
  'own timestamps': {},
  'own limits': {},
  'removal by job': {},
  'many tenants': {
    settings: { tenant: true },
    action: (draw): Action => {
      const add = (tenant: string, resource: string): JobPlan => {
        const job = draw.job()
        const { uid, key } = job.data
        const work = { ms: 8, fails: 0, steps: 0 }
        return { data: { uid, key, tenant, weight: 1, work, resources: [resource] }, opts: {} }
      }
      const jobs = Array.from({ length: BACKLOG }, (_, index) => add('t0', `crowd${index % 4}`))
      const others = Array.from({ length: 5 }, () => add('t1', 'alone'))
      return { do: 'addBulk', by: 0, jobs: [...jobs, ...others] }
    },
    weight: 2,
    isSlow: true,
  },
  schedulers: {
    action: (draw) => {
      const id = `s${draw.random.integer(0, 1)}`
      if (draw.random.chance(0.25)) return { do: 'removeScheduler', id }
      const everyMs = draw.random.integer(15, 60)
      const limit = draw.random.integer(2, 6)
      const more = {
        ...(draw.random.chance(0.2) && { offset: draw.random.integer(1, everyMs - 1) }),
        ...(draw.random.chance(0.2) && { startMs: draw.random.integer(-50, 100) }),
        ...(draw.random.chance(0.2) && { endMs: draw.random.integer(100, 300) }),
      }
      return { do: 'scheduler', by: draw.producer(), id, everyMs, limit, ...more, job: draw.job() }
    },
  },
  // Jobs.
  failures: {},
  backoff: {},
  unrecoverable: {},
  steps: {},
  'rate limit in a job': {},
  'deaf jobs': {},
  'long jobs': {},
  'jobs that move': {},
  'jobs that tell': {},
  'forgotten steps': {},
  // What people do to jobs.
  'jobs deleted from outside': {
    action: (draw) => ({ do: 'deleteHash', uid: draw.uid('alone') }),
    weight: 4,
  },
  removeById: {
    action: (draw): Action => ({
      ...{ do: 'removeById', by: draw.producer() },
      uid: draw.uid(draw.has('checkpoints') ? 'failing' : undefined),
    }),
  },
  retryAll: {
    action: ({ random }) => ({
      do: 'retryAll',
      state: random.chance(0.7) ? 'failed' : 'completed',
    }),
    weight: 4,
  },
  promoteAll: { action: () => ({ do: 'promoteAll' }), weight: 4 },
  notes: { action: (draw) => ({ do: 'note', uid: draw.uid(), what: draw.random.pick(NOTES) }) },
  'cancel all here': {
    action: (draw) => ({ do: 'cancelAllHere', worker: draw.worker() }),
    weight: 2,
  },
  remove: { action: (draw) => ({ do: 'remove', uid: draw.uid() }) },
  retry: { action: (draw) => ({ do: 'retry', uid: draw.uid('failing') }), weight: 12 },
  promote: { action: (draw) => ({ do: 'promote', uid: draw.uid('delayed') }), weight: 12 },
  changePriority: {
    action: (draw) => ({
      ...{ do: 'changePriority', uid: draw.uid(), priority: draw.random.integer(0, 3) },
    }),
  },
  changeDelay: {
    action: (draw) => ({
      ...{ do: 'changeDelay', uid: draw.uid('delayed'), delayMs: draw.random.integer(...MS.delay) },
    }),
  },
  updateData: { action: (draw) => ({ do: 'updateData', uid: draw.uid() }) },
  skip: { action: (draw) => ({ do: 'skip', uid: draw.uid('failing') }) },
  cancel: {
    action: (draw) => ({
      ...{ do: 'cancel', uid: draw.uid('long'), timeoutMs: draw.random.pick([0, 50, 2_000]) },
    }),
  },
  'cancel a line': {
    action: (draw) => ({
      ...{ do: 'cancelLine', resource: draw.resource(), timeoutMs: draw.random.pick([0, 2_000]) },
    }),
    weight: 3,
  },
  'cancel here': {
    action: (draw) => ({ do: 'cancelHere', worker: draw.worker(), uid: draw.uid() }),
  },
  // Limits.
  'pause a line': {
    action: (draw) => {
      const resource = draw.resource()
      if (draw.random.chance(0.4)) return { do: 'resumeLine', resource }
      if (draw.random.chance(0.5)) return { do: 'pauseLine', resource }
      return { do: 'pauseLine', resource, forMs: draw.random.integer(10, 150) }
    },
    weight: 10,
  },
  setSlots: {
    action: (draw) => {
      const resource = draw.resource()
      if (draw.random.chance(0.3)) return { do: 'resetSlots', resource }
      const forMs = draw.random.pick([0, 30, 150])
      return {
        do: 'setSlots',
        resource,
        slots: draw.random.integer(1, 3),
        ...(forMs > 0 && { forMs }),
      }
    },
    weight: 8,
  },
  setRate: {
    action: (draw): Action => {
      // The others keep the rates of their jobs.
      const resource = draw.has('several resources') ? 'r0' : draw.resource()
      if (draw.random.chance(0.3)) return { do: 'resetRate', resource }
      const wide = draw.random.chance(0.7) && { limit: 20, burst: 20 }
      return { do: 'setRate', resource, ...rate(draw.random), ...wide }
    },
    weight: 8,
  },
  'limits of the queue': {
    action: ({ random }) =>
      random.pick<Action>([
        { do: 'globalConcurrency' },
        { do: 'globalConcurrency', most: random.integer(1, 3) },
        { do: 'globalRate' },
        { do: 'globalRate', most: random.integer(1, 4), ms: random.integer(20, 60) },
        { do: 'restQueue', ms: random.integer(5, 80) },
        { do: 'wakeQueue' },
      ]),
  },
  // The queue.
  'tidy the queue': {
    action: ({ random }) => ({ do: random.pick(['trimEvents', 'removeOrphans']) }),
    weight: 4,
  },
  'pause the queue': {
    action: ({ random }) => ({ do: random.pick(['pauseQueue', 'resumeQueue', 'resumeQueue']) }),
  },
  'drain the queue': {
    action: ({ random }) => ({ do: 'drainQueue', delayed: random.chance(0.5) }),
    weight: 3,
  },
  clean: {
    action: ({ random }) => ({
      do: 'clean',
      state: random.pick(['wait', 'delayed', 'failed', 'completed', 'prioritized']),
    }),
  },
  obliterate: { action: () => ({ do: 'obliterate' }), weight: 3 },
  leaveLines: { action: () => ({ do: 'leaveLines' }), weight: 3 },
  look: { action: (draw) => ({ do: 'look', uid: draw.uid() }) },
  census: { action: () => ({ do: 'census' }), weight: 4 },
  rest: { action: () => ({ do: 'settle' }), weight: 6 },
  'leases of others': {
    action: (draw) => {
      const { random } = draw
      const names = [draw.resource(), ...(random.chance(0.3) ? [draw.resource()] : [])]
      return {
        do: 'hold',
        resources: [...new Set(names)],
        forMs: random.integer(1, 60),
        waitMs: random.pick([0, 100, 500]),
        how: random.pick(['acquire', 'acquire', 'tryAcquire', 'using', 'nested']),
        ...(random.chance(0.4) && { extends: true }),
        ...(random.chance(0.3) && { autoExtends: true }),
        ...(random.chance(0.3) && { handsOver: true }),
        ...(random.chance(0.2) && { abortsAfterMs: random.integer(1, 60) }),
      }
    },
  },
  // Workers.
  'pause a worker': {
    action: (draw) => ({
      do: draw.random.pick(['pauseWorker', 'resumeWorker']),
      worker: draw.worker(),
    }),
  },
  'questions to a worker': {
    action: (draw) => ({ do: 'ask', worker: draw.worker(), uid: draw.uid() }),
    weight: 4,
  },
  'changes of a worker': {
    action: (draw) => ({
      ...{ do: 'setConcurrency', worker: draw.worker(), most: draw.random.integer(1, 4) },
    }),
    weight: 4,
  },
  'close a worker': {
    action: (draw) => ({
      do: draw.random.pick(['closeWorker']),
      worker: draw.worker(),
      force: draw.random.chance(0.3),
    }),
    weight: 4,
  },
  'drain a worker': {
    action: (draw) => ({
      ...{ do: 'drainWorker', worker: draw.worker() },
      timeoutMs: draw.random.pick([0, 20, 1_000]),
    }),
    weight: 4,
  },
  'kill a worker': {
    settings: ({ settings }) => ({ workers: ['child', ...settings.workers.slice(1)] }),
    action: () => ({ do: 'kill', worker: 0 }),
    weight: 3,
    isSlow: true,
  },
  'freeze a worker': {
    settings: ({ settings }) => ({ workers: ['child', ...settings.workers.slice(1)] }),
    action: ({ random }) => ({ do: 'freezeWorker', worker: 0, forMs: random.pick(FREEZES_MS) }),
    weight: 3,
    isSlow: true,
  },
  'wrong clocks': {
    settings: ({ settings }) => ({ workers: ['child', ...settings.workers.slice(1)] }),
    action: (draw) => ({
      ...{ do: 'stepClock', worker: 0 },
      aheadMs: draw.random.pick([-5_000, -500, 0, 300, 500, 700, 5_000, 30_000, 3_600_000]),
    }),
    weight: 3,
    isSlow: true,
  },
  'cut connections': {
    action: (draw) =>
      draw.random.chance(0.5)
        ? { do: 'cut', worker: draw.worker() }
        : { do: 'cutProducer', by: draw.producer() },
    weight: 4,
  },
  'flushed scripts': { action: () => ({ do: 'flushScripts' }), weight: 3 },
  'restart of the queue': { action: () => ({ do: 'restartQueue' }), weight: 2, isSlow: true },
  'faults of the queue': {
    action: ({ random }) => ({
      ...{ do: 'faultQueue', how: random.pick(QUEUE_FAULTS) },
      forMs: random.pick([20, 200, 1_000, 3_000]),
    }),
    weight: 2,
    isSlow: true,
  },
  'lagging replica': {
    action: ({ random }) => ({ do: 'failover', lostMs: random.integer(0, 60) }),
    weight: 3,
    isSlow: true,
  },
  'faults of a minority of masters': {
    action: ({ random }) => ({
      ...{ do: 'faultMasters', how: random.pick(MASTER_FAULTS), first: 0, count: 1 },
      forMs: random.integer(0, 800),
    }),
    weight: 3,
    isSlow: true,
  },
  'faults of a majority of masters': {
    action: ({ random }) => ({
      ...{ do: 'faultMasters', how: random.pick(MASTER_FAULTS), first: random.integer(0, 2) },
      ...{ count: random.integer(2, 3), forMs: random.integer(0, 800) },
    }),
    weight: 2,
    isSlow: true,
  },
} as const satisfies Record<string, FeatureRules>

export type Feature = keyof typeof FEATURES
export const ALL_FEATURES = Object.keys(FEATURES) as Feature[]
const RULES: Readonly<Record<Feature, FeatureRules>> = FEATURES

const BATCHES = ['test/line/batches.test.ts', 'is refused with what counts for one job'] as const
const OPTIONS = 'test/bad-input/worker-options.test.ts'
const OF_LOCKED_WORKERS = [
  OPTIONS,
  'refuses what only a LockedWorker keeps in a processor of another worker',
] as const
const SETTINGS = [
  'test/worker/settings-check.test.ts',
  'a worker without order reports it',
] as const

const PLAIN = [
  'test/worker/settings-check.test.ts',
  'a LockedQueue with plain workers reports it',
] as const
const SLEEPS = 'refuses to let a resource sleep in a worker without lines'
const OF_LINES = [
  ...(['two producers', 'within priority', 'maxLength', 'rate by job', 'costs'] as const),
  ...(['tenants', 'many tenants', 'weights', 'slots by job'] as const),
] as const

export type Refusal = readonly [one: Feature, other: Feature, file: string, title: string]

/** Refused, or reported, where they are set, and the test of that. The first one goes. */
export const REFUSED: readonly Refusal[] = [
  ...(
    ['checkpoints', 'dedupe', 'dedupe fresh', 'dedupe key', 'block', 'burst length'] as const
  ).map((option): Refusal => [option, 'plain workers', ...OF_LOCKED_WORKERS]),
  ['batches', 'relaxed', ...BATCHES],
  ['checkpoints', 'batches', ...BATCHES],
  ['dedupe', 'batches', ...BATCHES],
  ['dedupe fresh', 'batches', ...BATCHES],
  ['dedupe key', 'batches', ...BATCHES],
  ['removeOnFail', 'block', OPTIONS, 'refuses to remove failed jobs that hold their line'],
  ['dedupe fresh', 'relaxed', OPTIONS, 'refuses fresh results without lines'],
  ['rate limit in a job', 'relaxed', 'test/line/limits.test.ts', SLEEPS],
  ['batches', 'plain workers', OPTIONS, 'refuses batches in a processor of another worker'],
  ['rate limit in a job', 'plain workers', 'test/line/limits.test.ts', SLEEPS],
  // What a LockedQueue has needs workers with lines.
  ...OF_LINES.flatMap((option): readonly Refusal[] => [
    [option, 'relaxed', ...SETTINGS],
    [option, 'plain workers', ...PLAIN],
  ]),
]

/** They cannot be written together, and why. The first one goes. */
export const APART: readonly (readonly [Feature, Feature, string])[] = [
  ['slots by job', 'slots', 'One option has one value.'],
  ['drain a worker', 'plain workers', "BullMQ's worker has no `drain`."],
  ['wrong clocks', 'plain workers', "BullMQ's worker counts by its own clock, with or without us."],
]

/** The first one is nothing without the second. */
const NEEDS: readonly (readonly [Feature, Feature])[] = [
  ['plain workers', 'relaxed'],
  ['flows of a plain queue', 'flows'],
  ['children that are removed', 'flows'],
  ['drain a worker', 'several workers'],
]

const CHANCE = { first: [2, 15], slow: 0.14 } as const
/** Beside features that a plan must have. */
const FEW = 4
const ADDS = 50
/** So many times as often. */
const MEANT = 5
const TAKES_LONG: ReadonlySet<Action['do']> = new Set([
  ...(['failover', 'faultMasters', 'faultQueue', 'drainWorker'] as const),
  'freezeWorker',
])
const GAPS_MS = [0, 0, 0, 1, 2, 4, 8, 15] as const

/** What seldom meets by chance, and what it takes for a rule to matter. */
const THEMES: readonly (readonly Feature[])[] = [
  ['maxLength', 'schedulers', 'long jobs'],
  ['clean', 'drain the queue', 'pause the queue'],
  ['tenants', 'leaveLines', 'backoff', 'failures'],
  ['pause a line', 'setSlots', 'several workers', 'long jobs'],
  ['rate by job', 'costs', 'several resources', 'several workers'],
  ['setRate', 'several resources', 'addBulk'],
  ['cancel', 'failures', 'long jobs'],
  ['drain a worker', 'long jobs', 'several workers'],
  ['batches', 'failures', 'backoff', 'addBulk'],
  ['checkpoints', 'slots', 'failures', 'obliterate'],
  ['own ids', 'removeById', 'plain producer', 'failures', 'checkpoints', 'addBulk'],
  ['own ids', 'removeById', 'cancel', 'failures'],
  ['dedupe', 'dedupe key', 'slots', 'long jobs'],
  ['dedupe', 'dedupe fresh', 'dedupe key', 'slots', 'plain producer'],
  ['several resources', 'slots', 'long jobs'],
  ['block', 'failures', 'retryAll', 'removal by job'],
  ['schedulers', 'long jobs', 'concurrency', 'census'],
  ['schedulers', 'cancel a line', 'cancel'],
  ['forgotten steps', 'long jobs', 'steps'],
  ['wrong clocks', 'delay', 'several workers'],
  ['maxWaitMs', 'delay', 'failures', 'backoff'],
  ['burst length', 'long jobs', 'faults of a minority of masters'],
  ['jobs deleted from outside', 'long jobs', 'pause a line'],
  ['within priority', 'priority', 'delay', 'long jobs'],
  ['faults of the queue', 'tuned workers', 'long jobs', 'several workers'],
  ['within priority', 'priority', 'addBulk', 'long jobs'],
]
const THEMED = 0.7

/** What a sharded queue refuses, or what knows nothing of shards. */
const WITHOUT_SHARDS: readonly Feature[] = [
  ...(['relaxed', 'plain workers', 'plain producer', 'flows of a plain queue', 'limiter'] as const),
]
/** What counts within a shard. */
const IN_ONE_SHARD: readonly Feature[] = [
  ...(['several resources', 'flows', 'children that are removed', 'own ids'] as const),
  ...(['deduplication', 'dedupe key', 'tenants', 'many tenants', 'weights'] as const),
]

/** A lock service besides Redis is one server here. */
const OF_MASTERS: readonly Feature[] = ['faults of a minority of masters']

/** Whether all resources of an episode are in one shard of a sharded queue. */
export function isInOneShard({ features }: Pick<Plan, 'features'>): boolean {
  return IN_ONE_SHARD.some((name) => features.includes(name))
}

/**
 * @param must features that the plan has, where they may be combined.
 * @param shards of a sharded queue. Every second plan spreads its resources over them.
 * @param areMasters whether Redis masters grant the leases.
 */
export function drawPlan(
  seed: number,
  must: readonly Feature[] = [],
  shards?: number,
  areMasters = true,
): Plan {
  const random = new SeededRandom(seed)
  const theme = random.chance(THEMED) ? (THEMES[seed % THEMES.length] ?? []) : []
  const meant = must.length === 0 ? theme : must
  const isSpread = seed % 2 === 1 && !isInOneShard({ features: must })
  const ofShards = [...WITHOUT_SHARDS, ...(isSpread ? IN_ONE_SHARD : [])]
  const without = [...(shards ? ofShards : []), ...(areMasters ? [] : OF_MASTERS)]
  const features = drawFeatures(random.fork(), meant).filter((name) => !without.includes(name))
  const settings = { ...drawSettings(features, random.fork()), ...(shards && { shards }) }
  const operations = drawOperations(features, meant, settings, random)
  return { seed, features, settings, operations }
}

function drawFeatures(random: SeededRandom, must: readonly Feature[]): readonly Feature[] {
  const count = random.integer(...CHANCE.first)
  const slow = random.chance(CHANCE.slow)
  const possible = ALL_FEATURES.filter((name) => slow || RULES[name].isSlow !== true)
  // Few others: then both are at work often.
  const most = must.length === 0 ? count : FEW
  const chosen = new Set([...must, ...random.shuffle(possible).slice(0, most)])
  if (slow && ![...chosen].some((name) => RULES[name].isSlow)) {
    chosen.add(random.pick(ALL_FEATURES.filter((name) => RULES[name].isSlow)))
  }
  for (const [one, other] of NEEDS) if (chosen.has(one)) chosen.add(other)
  const apart = [...REFUSED, ...APART]
  for (const [one, other] of apart) {
    if (must.includes(one) && chosen.has(other)) chosen.delete(other)
  }
  if (!chosen.has('relaxed')) chosen.delete('plain workers')
  for (const [one, other] of apart) if (chosen.has(other)) chosen.delete(one)
  return ALL_FEATURES.filter((name) => chosen.has(name))
}

function drawSettings(features: readonly Feature[], random: SeededRandom): Settings {
  const settings = features.reduce((given: Settings, name) => {
    const { settings: changed } = RULES[name]
    const options = { settings: given, random }
    return { ...given, ...(typeof changed === 'function' ? changed(options) : changed) }
  }, DEFAULTS)
  return settings.within === 'priority' ? { ...settings, whenFull: 'refuse' } : settings
}

function drawOperations(
  features: readonly Feature[],
  meant: readonly Feature[],
  settings: Settings,
  random: SeededRandom,
): readonly Operation[] {
  const has = (name: Feature): boolean => features.includes(name)
  // A rate matters where many jobs are of one resource.
  const most = has('rate by job') || has('setRate') ? 2 : 3
  const least = has('several resources') ? 2 : 1
  const resources = Array.from({ length: random.integer(least, most) }, (_, index) => `r${index}`)
  let [jobs, jobsBeside] = [0, 0]
  const some: Record<Meant, string[]> = { failing: [], delayed: [], long: [], alone: [] }
  const draw: Draw = {
    ...{ random, has, settings },
    uid: (kind) =>
      (kind && some[kind].at(-1 - Math.floor(random.next() ** 2 * some[kind].length))) ??
      (kind === 'alone' ? 'none' : undefined) ??
      `j${Math.max(1, jobs - Math.floor(random.next() ** 2 * Math.min(jobs, 12)))}`,
    resource: () => random.pick(resources),
    worker: () => random.integer(0, settings.workers.length),
    producer: () => {
      if (has('relaxed')) return 'plain'
      if (has('plain producer') && random.chance(0.4)) return 'plain'
      return has('two producers') && random.chance(0.5) ? 1 : 0
    },
    job: (more = {}) => {
      jobs += 1
      const job = drawJob(`j${jobs}`, draw, resources, more)
      const { work, uid } = job.data
      if (work.fails >= (job.opts.attempts ?? 1) || work.isFinal === true) some.failing.push(uid)
      if ((job.opts.delay ?? 0) > 0) some.delayed.push(uid)
      if (work.ms >= 20) some.long.push(uid)
      some.alone.push(uid)
      return job
    },
    jobBeside: () => drawJob(`b${++jobsBeside}`, draw, resources, {}),
    isOfFlow: ({ data }) => {
      some.alone = some.alone.filter((uid) => uid !== data.uid)
    },
  }
  const actions = features.filter((name) => RULES[name].action !== undefined)
  const length = meant.length > 0 ? random.integer(24, 44) : random.integer(6, 34)
  const operations: Operation[] = []
  while (operations.length < length) {
    const weights = actions.map(
      (name) => (RULES[name].weight ?? 6) * (meant.includes(name) ? MEANT : 1),
    )
    let at = random.next() * (ADDS + weights.reduce((sum, each) => sum + each, 0)) - ADDS
    const chosen = actions.find((_, index) => at >= 0 && (at -= weights[index] ?? 0) < 0)
    const action: Action =
      chosen === undefined
        ? { do: 'add', by: draw.producer(), job: draw.job() }
        : (RULES[chosen].action?.(draw) as Action)
    operations.push({
      ...{ ...action, afterMs: random.pick(GAPS_MS) },
      // What takes long is for what happens meanwhile.
      waits: random.chance(TAKES_LONG.has(action.do) ? 0.1 : 0.7),
      ...(chosen !== undefined && { of: chosen }),
    })
  }
  return operations
}

function drawJob(
  uid: string,
  { random, has }: Draw,
  resources: readonly string[],
  more: JobOptions,
): JobPlan {
  const canFail = has('failures') || has('retry') || has('skip')
  const fails =
    canFail && random.chance(has('batches') || has('checkpoints') ? 0.5 : 0.35)
      ? random.integer(1, 3)
      : 0
  const isDelayed = (has('promote') || has('changeDelay')) && random.chance(0.4)
  const several = has('several resources') && resources.length > 1 && random.chance(0.6)
  const names = several
    ? random.shuffle(resources).slice(0, random.integer(2, resources.length))
    : [random.pick(resources)]
  const attempts = has('failures') ? random.integer(1, 3) : 1
  return {
    data: {
      ...{ uid, resources: names, key: `k${random.integer(0, 2)}` },
      ...{ tenant: `t${random.integer(0, 1)}`, weight: random.pick([0.5, 1, 4]) },
      work: {
        ms: lengthMs(random, has),
        fails,
        ...(has('unrecoverable') && random.chance(0.2) && { fails: 1, isFinal: true }),
        steps: has('checkpoints') ? random.integer(1, 3) : has('steps') ? random.integer(0, 3) : 0,
        ...(has('rate limit in a job') && random.chance(0.2) && { restMs: random.integer(5, 80) }),
        ...(has('jobs that move') &&
          random.chance(0.3) && { moves: random.pick(['delay', 'wait', 'children'] as const) }),
        ...(has('jobs that tell') && random.chance(0.5) && { tells: true }),
        ...(has('deaf jobs') && random.chance(0.3) && { isDeaf: true }),
        ...(has('forgotten steps') && random.chance(0.3) && { forgets: true }),
      },
    },
    opts: {
      ...(attempts > 1 && { attempts }),
      ...(isDelayed && { delay: random.integer(30, 150) }),
      ...(has('backoff') &&
        random.chance(0.7) && {
          backoff: random.pick([
            random.integer(1, 60),
            random.integer(20, 90),
            { type: 'exponential', delay: 5, jitter: 0.5 } as const,
            { type: 'custom' } as const,
          ]),
        }),
      ...(has('own timestamps') &&
        random.chance(0.5) && { timestamp: -random.integer(0, 20_000) / 4 }),
      ...(has('own limits') && { keepLogs: 1, stackTraceLimit: 1, sizeLimit: 10_000 }),
      ...(has('removal by job') && random.chance(0.3) && { removeOnComplete: keeps(random) }),
      ...(has('removal by job') && random.chance(0.3) && { removeOnFail: keeps(random) }),
      ...(has('priority') && random.chance(0.5) && { priority: random.integer(1, 3) }),
      ...(has('lifo') && random.chance(0.3) && { lifo: true }),
      ...(has('own ids') &&
        random.chance(0.5) && { jobId: `own${random.integer(0, has('checkpoints') ? 1 : 4)}` }),
      ...(has('deduplication') &&
        random.chance(0.5) && {
          deduplication: {
            id: `d${random.integer(0, 1)}`,
            ...random.pick([
              {},
              { ttl: 30 },
              { ttl: 30, extend: true },
              { replace: true, ttl: 30 },
              { keepLastIfActive: true },
            ]),
          },
        }),
      ...more,
    },
  }
}

function lengthMs(random: SeededRandom, has: Draw['has']): number {
  // Some go on when their worker does, and some run elsewhere then.
  if (has('freeze a worker') && random.chance(0.15)) return random.integer(200, 2_500)
  if (!has('long jobs') || !random.chance(has('cancel') ? 0.5 : 0.3))
    return random.integer(...MS.short)
  // A worker gives up a lease that no job takes within a second.
  if (random.chance(has('burst length') ? 0.2 : 0.04)) return random.integer(1_050, 1_300)
  // Workers look for requests about twice a second.
  if (has('cancel') && random.chance(0.5)) return random.integer(500, 900)
  if (has('drain a worker') && random.chance(0.5)) return random.integer(150, 300)
  return random.integer(20, 90)
}

function keeps(random: SeededRandom): true | { count: number } | { age: number } {
  return random.pick([true, { count: 2 }, { age: 100 }] as const)
}

function rate(random: SeededRandom): { limit: number; perMs: number; burst: number } {
  return { limit: random.integer(1, 3), perMs: random.integer(30, 90), burst: random.integer(1, 2) }
}
