/**
 * What is public, and how it takes part: drawn, refused where it is set, or apart from what is
 * combined. A test holds the list against the types, and what is drawn against the plans.
 */
import { drawPlan } from './draw.ts'
import { DEFAULTS, type Plan, type Settings } from './plan.ts'

/** The title of a test, or why it can be combined with nothing. */
export type Part =
  | { readonly drawn: string }
  | { readonly refused: readonly [file: string, title: string] }
  | { readonly apart: string }

const drawn = (...keys: readonly string[]): readonly (readonly [string, Part])[] =>
  keys.map((key) => {
    const [member = '', as = member] = key.split('=')
    return [member, { drawn: as }]
  })
const apart = (why: string, ...names: readonly string[]): readonly (readonly [string, Part])[] =>
  names.map((name) => [name, { apart: why }])
const refused = (
  file: string,
  title: string,
  ...names: readonly string[]
): readonly (readonly [string, Part])[] => names.map((name) => [name, { refused: [file, title] }])

const EMITTER = 'It is an event emitter; workers, queues and history listen in every episode.'
const NAMES = 'A name or a connection of BullMQ; no job takes part.'
const READS = 'It reads, and each census and each look reads the same states.'
const OLD = 'Another name of what is drawn, or of releases before BullMQ 6.'
const TELEMETRY = 'It listens: test/telemetry.'
const VALUE = 'A value or a state that is read.'
const BY_HAND = 'By hand, on a job that no worker runs: test/compatibility/by-hand.test.ts.'
const SIMULATED = '`npm run sim` draws it, where clocks are part of the world.'
const ADDS = 'What `queue.add` calls.'
const ALWAYS = 'Every episode does it.'
const OWN_TIME = 'BullMQ reckons a time with it, before the job is added.'
const BY_BULLMQ = 'BullMQ calls it, or it is what its scripts are given.'

const WORKER_OPTIONS = 'test/bad-input/worker-options.test.ts'
const WORKER_TESTS = 'test/compatibility/worker.test.ts'
const PROCESSOR_FILE = 'refuses a processor that is the path of a file'

/** By the name of a type, and of its member. */
export const PUBLIC: Readonly<Record<string, ReadonlyMap<string, Part>>> = {
  LockedQueue: new Map([
    ...drawn('add', 'addBulk', 'skip', 'pauseResource=pauseLine', 'resumeResource=resumeLine'),
    ...drawn('setSlots', 'resetSlots', 'setRate', 'resetRate', 'cancel', 'leaveLines'),
    ...drawn('getLimits=look', 'getAllLimits=look', 'position=look', 'getJobState=look'),
    ...drawn('setGlobalConcurrency=globalConcurrency', 'setGlobalRateLimit=globalRate'),
    ...drawn('removeGlobalConcurrency=globalConcurrency', 'removeGlobalRateLimit=globalRate'),
    ...drawn('upsertJobScheduler=scheduler', 'removeJobScheduler=removeScheduler'),
    ...drawn('pause=pauseQueue', 'resume=resumeQueue', 'rateLimit=restQueue'),
    ...drawn('removeRateLimitKey=wakeQueue', 'removeDeduplicationKey=note', 'remove=removeById'),
    ...drawn('updateJobProgress=note', 'addJobLog=note', 'drain=drainQueue', 'clean'),
    ...drawn('obliterate', 'retryJobs=retryAll', 'promoteJobs=promoteAll', 'trimEvents'),
    ...drawn('removeOrphanedJobs=removeOrphans', 'getJob=retry', 'getJobCounts=look'),
    ...apart(ALWAYS, 'close', 'waitUntilReady', 'isPaused', 'getJobSchedulers', 'getFailed'),
    ...apart(ALWAYS, 'getJobs', 'getActiveCount', 'getBackend'),
    ...apart(EMITTER, 'emit', 'on', 'off', 'once'),
    ...apart(
      NAMES,
      'token',
      'jobsOpts',
      'opts',
      'defaultJobOptions',
      'metaValues',
      'toKey',
      'keys',
    ),
    ...apart(NAMES, 'closing', 'backend', 'qualifiedName', 'name', 'disconnect', 'trace'),
    ...apart(NAMES, 'getQueueEvents', 'jobScheduler'),
    ...drawn('getVersion=look', 'getMeta=look'),
    ...apart(OLD, 'removeDebounceKey'),
    ...apart(OLD, 'removeDeprecatedPriorityKey', 'getDebounceJobId'),
    ...drawn('isMaxed=look', 'getJobScheduler=look', 'getJobSchedulersCount=look', 'count=look'),
    ...drawn(
      'getRateLimitTtl=look',
      'getDeduplicationJobId=look',
      'getGlobalConcurrency=look',
      'getGlobalRateLimit=look',
    ),
    ...drawn(
      'getJobCountByTypes=look',
      'getCompletedCount=look',
      'getFailedCount=look',
      'getDelayedCount=look',
    ),
    ...drawn(
      'getPrioritizedCount=look',
      'getCountsPerPriority=look',
      'getWaitingCount=look',
      'getWaitingChildrenCount=look',
    ),
    ...drawn('getWaiting=look', 'getWaitingChildren=look', 'getActive=look', 'getDelayed=look'),
    ...drawn('getPrioritized=look', 'getCompleted=look', 'getRanges=look', 'getJobLogs=look'),
    ...drawn(
      'getWorkers=look',
      'getWorkersCount=look',
      'getMetrics=look',
      'exportPrometheusMetrics=look',
    ),
    ...apart(READS, 'recordJobCountsMetric', 'getDependencies'),
  ]),
  LockedQueueOptions: new Map([
    ...drawn('slots', 'within', 'maxLength', 'whenFull', 'maxWaitMs', 'rate', 'tenant', 'weight'),
    ...drawn('defaultJobOptions', 'prefix'),
    ...apart(ALWAYS, 'resource', 'connection'),
    ...apart(NAMES, 'streams', 'skipMetasUpdate', 'settings', 'blockingConnection'),
    ...apart(NAMES, 'skipVersionCheck', 'skipWaitingForReady'),
    ...apart(TELEMETRY, 'telemetry'),
  ]),
  LockedWorker: new Map([
    ...drawn('run=tuned', 'pause=pauseWorker', 'resume=resumeWorker', 'cancelJob=cancelHere'),
    ...drawn(
      'cancelAllJobs=cancelAllHere',
      'drain=drainWorker',
      'close=closeWorker',
      'inspect=ask',
    ),
    ...drawn('why=ask', 'concurrency=setConcurrency'),
    ...apart(EMITTER, 'emit', 'on', 'off', 'once'),
    ...apart(NAMES, 'opts', 'id', 'toKey', 'keys', 'closing', 'backend', 'qualifiedName', 'name'),
    ...apart(NAMES, 'getBackend', 'disconnect', 'trace', 'waitUntilReady', 'jobScheduler'),
    ...apart(OLD, 'rateLimit'),
    ...drawn('isRunning=ask', 'isPaused=ask'),
    ...apart(READS, 'isStarting'),
    ...apart(BY_BULLMQ, 'processJob', 'delay', 'extendJobLocks', 'getNextJob'),
    ...apart(BY_BULLMQ, 'minimumBlockTimeout', 'maximumBlockTimeout', 'startStalledCheckTimer'),
  ]),
  LockedWorkerOptions: new Map([
    ...drawn('order', 'onFailure', 'dedupe', 'checkpoints', 'burstMs', 'maxWaitMs', 'slots'),
    ...drawn('concurrency', 'limiter', 'removeOnComplete', 'removeOnFail', 'prefix'),
    ...drawn('maxValueBytes=tuned', 'jobLogLevel=tuned', 'maxHoldMs=tuned', 'name=tuned'),
    ...drawn('autorun=tuned', 'metrics=tuned', 'maximumRateLimitDelay=tuned', 'drainDelay=tuned'),
    ...drawn('maxStalledCount=tuned', 'stalledInterval=tuned', 'skipStalledCheck=tuned'),
    ...drawn('lockDuration=tuned', 'lockRenewTime=tuned', 'runRetryDelay=tuned'),
    ...apart(ALWAYS, 'redlock', 'resource', 'leaseMs', 'logger', 'connection', 'settings'),
    ...apart(NAMES, 'blockingConnection', 'skipVersionCheck', 'skipWaitingForReady'),
    ...apart(TELEMETRY, 'telemetry'),
    ...refused(WORKER_TESTS, 'maxStartedAttempts is refused', 'maxStartedAttempts'),
    ...refused(WORKER_TESTS, 'skipLockRenewal is refused', 'skipLockRenewal'),
    ...refused(
      WORKER_OPTIONS,
      PROCESSOR_FILE,
      'useWorkerThreads',
      'workerForkOptions',
      'workerThreadsOptions',
    ),
  ]),
  LockedProcessorOptions: new Map([
    ...drawn('slots', 'maxWaitMs', 'maxHoldMs=tuned'),
    ...apart(ALWAYS, 'resource', 'leaseMs', 'logger', 'onRequeued', 'onLeaseLost'),
    ...apart('It says what is logged.', 'jobLogLevel'),
  ]),
  Redlock: new Map([
    ...drawn('tryAcquire=hold:tryAcquire', 'acquire=hold:acquire', 'using=hold:using'),
    ...drawn('handOver=hold:handsOver', 'inspect=look'),
    ...apart(ALWAYS, 'ready', 'close', 'status', 'waitedFor'),
    ...apart('Once, before the first episode.', 'bootstrap'),
    ...apart('A setting that is read.', 'namespace', 'leaseMs', 'maxLeaseMs', 'quorum', 'servers'),
  ]),
  RedlockOptions: new Map([
    ...apart(ALWAYS, 'masters', 'leaseMs', 'maxLeaseMs', 'namespace', 'masterTimeoutMs', 'logger'),
    ...apart(SIMULATED, 'driftFactor'),
    ...apart(SIMULATED, 'maxClockSkewMs', 'fenceTtlMs'),
    ...apart('A connection or a name.', 'connectTimeoutMs', 'owner'),
    ...apart('A resize: `test/stories/resize.test.ts` has it under load.', 'previous'),
    ...drawn('maxHoldMs=hold', 'maxExtensions=hold'),
  ]),
  AcquireOptions: new Map([
    ...drawn('waitMs=hold', 'signal=hold:abortsAfterMs', 'leaseMs=hold', 'slots=hold'),
    ...drawn('autoExtend=hold:autoExtends', 'maxHoldMs=hold', 'maxExtensions=hold'),
  ]),
  LimitOptions: new Map([...drawn('until=pauseLine', 'reason=pauseLine', 'by=pauseLine')]),
  CancelOptions: new Map([...drawn('reason=cancel', 'timeoutMs=cancel')]),
  DrainOptions: new Map([...drawn('timeoutMs=drainWorker')]),
  JobRate: new Map([...drawn('cost=costs', 'limit=rate', 'perMs=rate', 'burst=rate')]),
  Dedupe: new Map([...drawn('resultTtlMs=dedupe', 'key=dedupe', 'fresh=dedupe')]),
  BatchOptions: new Map([...drawn('size=batch', 'waitMs=batch')]),
  JobLease: new Map([
    ...drawn(
      'step=work:steps',
      'rateLimit=work:restMs',
      'extend=work:tells',
      'toString=work:moves',
    ),
    ...apart(ALWAYS, 'fencingToken', 'signal', 'trustedUntil'),
    ...apart(VALUE, 'resource', 'resources', 'leaseMs', 'remainingMs'),
    ...apart(VALUE, 'currentStep', 'logger'),
  ]),
  Lease: new Map([
    ...drawn('extend=hold:extends', 'release=hold:acquire', 'remainingMs=hold:handsOver'),
    ...apart(ALWAYS, 'fencingToken', 'trustedUntil'),
    ...apart(VALUE, 'resource', 'resources', 'token', 'leaseMs', 'signal'),
    ...drawn('assertHeld=hold'),
  ]),
  Job: new Map([
    ...drawn('remove', 'retry', 'promote', 'changePriority', 'changeDelay', 'updateData'),
    ...drawn('updateProgress=note', 'log=note', 'clearLogs=note', 'removeDeduplicationKey=note'),
    ...drawn('moveToDelayed=moves:delay', 'moveToWait=moves:wait'),
    ...drawn('moveToWaitingChildren=moves:children', 'getDependenciesCount=moves:children'),
    ...apart(BY_BULLMQ, 'moveToCompleted', 'moveToFailed', 'extendLock', 'addJob', 'toFlowEntry'),
    ...apart(BY_HAND, 'removeChildDependency'),
    ...drawn('removeUnprocessedChildren=orphan'),
    ...apart(BY_HAND, 'waitUntilFinished'),
    ...apart(VALUE, 'name', 'data', 'opts', 'id', 'progress'),
    ...apart(VALUE, 'queueQualifiedName', 'returnvalue', 'stacktrace'),
    ...apart(VALUE, 'delay', 'priority', 'timestamp', 'token'),
    ...apart(VALUE, 'attemptsStarted', 'attemptsMade', 'failedReason'),
    ...apart(VALUE, 'stalledCounter', 'deferredFailure', 'finishedOn'),
    ...apart(VALUE, 'processedOn', 'parentKey', 'parent', 'prefix'),
    ...apart(VALUE, 'deduplicationId', 'repeatJobKey', 'processedBy'),
    ...apart(VALUE, 'asJSON', 'asJSONSandbox', 'queueName'),
    ...drawn('toJSON=look', 'isCompleted=look', 'isFailed=look', 'isDelayed=look'),
    ...drawn('isActive=look', 'isWaitingChildren=look', 'isWaiting=look', 'getState=look'),
    ...drawn('getChildrenValues=look', 'getDependencies=look'),
    ...drawn('getIgnoredChildrenFailures=look'),
    ...apart(OLD, 'getFailedChildrenValues'),
    ...apart(ADDS, 'Job.create', 'Job.createBulk', 'Job.fromJSON', 'Job.fromId'),
    ...apart(ADDS, 'Job.optsFromJSON', 'Job.addJobLog'),
  ]),
  JobsOptions: new Map([
    ...drawn('jobId', 'timestamp', 'priority', 'delay', 'attempts', 'backoff', 'lifo', 'keepLogs'),
    ...drawn('removeOnComplete=opts:removeOnComplete', 'removeOnFail=opts:removeOnFail'),
    ...drawn('stackTraceLimit', 'sizeLimit', 'deduplication', 'failParentOnFailure'),
    ...drawn('continueParentOnFailure', 'ignoreDependencyOnFailure', 'removeDependencyOnFailure'),
    ...drawn('backoff.type=backoff', 'backoff.delay=backoff', 'backoff.jitter=backoff'),
    ...drawn('removeOnComplete.count=opts:removeOnComplete', 'parent=moves:children'),
    ...drawn('removeOnComplete.age=opts:removeOnComplete', 'parent.id=moves:children'),
    ...drawn('parent.queue=moves:children'),
    ...apart('It bounds how many jobs one call removes.', 'removeOnComplete.limit'),
    ...apart(BY_BULLMQ, 'repeatJobKey', 'prevMillis'),
    ...apart(TELEMETRY, 'telemetry'),
  ]),
  DeduplicationOptions: new Map([
    ...drawn('id=deduplication', 'ttl=deduplication', 'extend=deduplication'),
    ...drawn('replace=deduplication', 'keepLastIfActive=deduplication'),
    ...apart(OWN_TIME, 'reschedule'),
  ]),
  RepeatOptions: new Map([
    ...drawn('limit=scheduler', 'every=scheduler', 'offset', 'startDate=startMs', 'endDate=endMs'),
    ...apart(OWN_TIME, 'pattern', 'immediately', 'count', 'tz'),
    ...apart(OWN_TIME, 'prevMillis', 'key', 'jobId'),
  ]),
  FlowProducer: new Map([
    ...drawn('add=flow', 'addBulk=bulk'),
    ...apart(NAMES, 'toKey', 'keys', 'closing', 'opts', 'getBackend', 'close', 'disconnect'),
    ...apart(NAMES, 'waitUntilReady'),
    ...drawn('getFlow=look'),
    ...apart(EMITTER, 'emit', 'on', 'off', 'once'),
  ]),
}

/** Every key by which `PUBLIC` may say that something is drawn, of so many plans. */
export function drawnKeys(plans: number): ReadonlySet<string> {
  const keys = new Set<string>()
  for (let seed = 1; seed <= plans; seed += 1) addKeys(drawPlan(seed), keys)
  return keys
}

function addKeys({ settings, operations }: Plan, keys: Set<string>): void {
  for (const [name, value] of Object.entries(settings)) {
    if (JSON.stringify(value) !== JSON.stringify(DEFAULTS[name as keyof Settings])) keys.add(name)
  }
  for (const operation of operations) {
    keys.add(operation.do)
    if (operation.do === 'scheduler') for (const name of Object.keys(operation)) keys.add(name)
    if (operation.do === 'flow' && operation.bulk === true) keys.add('bulk')
    if (operation.do === 'hold') {
      keys.add(`hold:${operation.how}`)
      for (const name of Object.keys(operation)) keys.add(`hold:${name}`)
    }
    const jobs = [
      ...('job' in operation ? [operation.job] : []),
      ...('jobs' in operation ? operation.jobs : []),
      ...('children' in operation ? [...operation.children, operation.parent] : []),
    ]
    for (const { opts, data } of jobs) {
      for (const name of Object.keys(opts)) keys.add(name).add(`opts:${name}`)
      for (const [name, value] of Object.entries(data.work)) if (value) keys.add(`work:${name}`)
      if (data.work.moves !== undefined) keys.add(`moves:${data.work.moves}`)
    }
  }
}
