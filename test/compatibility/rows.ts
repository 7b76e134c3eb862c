/**
 * What becomes of every member of BullMQ's public surface with `LockedQueue` and `LockedWorker`.
 * The page docs/compatibility.md is written from these rows. A row names the differential test that
 * shows it, or says why it cannot differ.
 */
import type { Section } from './surface.ts'

export type Verdict = 'same' | 'differs' | 'refused'

/** `In use` has what is no member: how the classes are written, and what they meet. */
export type RowSection = Section | 'In use'

export interface Row {
  readonly section: RowSection
  readonly member: string
  readonly verdict: Verdict
  /** One sentence: what happens and, where it is refused, what to do. */
  readonly how: string
  /** The title of a differential test. Without one the row says why it cannot differ. */
  readonly test: string | undefined
}

type Members = Partial<Readonly<Record<RowSection, readonly string[]>>>

const AS_BULLMQ = 'As BullMQ.'
const IN_LINE = 'Also for a job that waits in line.'
const WAITING = 'Jobs that wait in line are waiting ones.'

export const ROWS: readonly Row[] = [
  // Adding
  same('Jobs take their place in the order of adding.', {
    'a worker that was busy starts the next job of a customer within milliseconds': {
      Queue: ['add'],
    },
    'addBulk adds in order, for every customer': { Queue: ['addBulk'] },
    'Job.create and Job.createBulk add to the line as queue.add does': {
      Job: ['Job.create', 'Job.createBulk', 'addJob'],
    },
    'a timestamp of the caller: the order of adding holds, and the job shows it': {
      JobsOptions: ['timestamp'],
      Job: ['timestamp'],
    },
  }),
  same('A refused job leaves no place behind.', {
    'sizeLimit refuses a job that is too large, and leaves no place behind': {
      JobsOptions: ['sizeLimit'],
    },
    'addBulk with one job that is refused adds none, and leaves no place behind':
      '`addBulk` with a job that is refused',
    'add with a parent that does not exist is refused, and leaves no place behind': {
      JobsOptions: ['parent', 'parent.id', 'parent.queue'],
    },
  }),
  same('A job that was there before keeps its place, data and delay.', {
    'a job that waits in line and is added again by its jobId keeps its place, data and state': {
      JobsOptions: ['jobId'],
      'queueEvents.on': ['added'],
    },
    'a delayed job that is added again by its jobId stays delayed, and holds up nothing':
      'a delayed job, added again by its `jobId`',
    'a job with a delay of an hour that is added again by its jobId stays delayed':
      'a job with a delay of an hour, added again',
    'a delayed job that is added again runs when it is due':
      'a job with a short delay, added again',
    'a delayed job that is deduplicated stays delayed, and holds up nothing':
      'a delayed job, deduplicated',
    'a finished job that is added again by its jobId holds up nothing':
      'a finished job, added again by its `jobId`',
    'a flow’s parent that is added again by its jobId holds up nothing':
      'a flow’s parent, added again by its `jobId`',
  }),
  same(AS_BULLMQ, {
    'a call that follows an add without await finds the job': 'a call that follows `add` at once',
    'queue.close without await after an add: the job is added': '`queue.close` after `add` at once',
    'data that are nothing in JSON: the job has an empty object': 'data that are nothing in JSON',
  }),
  same('What a killed producer has added runs within seconds, once.', {
    'producers that are killed while they add: every job that exists runs, once':
      'a producer that dies in `add`',
    'producers that are killed while they addBulk: every job that exists runs, once':
      'a producer that dies in `addBulk`',
  }),

  // Deduplication
  same('The id is free when the job is done.', {
    'deduplication without a ttl: the id is free again when the job is done': {
      DeduplicationOptions: ['id'],
    },
    'deduplication with a ttl: what is added after the job is done holds up nothing': {
      DeduplicationOptions: ['ttl'],
    },
  }),
  same(IN_LINE, {
    'deduplication of a job that waits in line: the first one runs, once': {
      JobsOptions: ['deduplication'],
      Queue: ['getDeduplicationJobId', 'getDebounceJobId'],
      Job: ['deduplicationId'],
      'queueEvents.on': ['deduplicated'],
    },
    'removeDeduplicationKey: the id is free while its job waits in line': {
      Queue: ['removeDeduplicationKey', 'removeDebounceKey'],
      Job: ['removeDeduplicationKey'],
    },
    'deduplication.extend starts the ttl again': { DeduplicationOptions: ['extend'] },
  }),
  same('Replaces a delayed job; one that waits in line is waiting, and is spared.', {
    'deduplication.replace replaces a delayed job, and holds up nothing': {
      DeduplicationOptions: ['replace'],
    },
    'deduplication.replace spares a job that waits in line, as one that waits':
      '`deduplication.replace` of a job that waits in line',
  }),
  same('Moves a delayed job; one that waits in line is spared.', {
    'deduplication.reschedule moves a delayed job, and spares one that waits in line': {
      DeduplicationOptions: ['reschedule'],
    },
  }),
  same('The last job that was added while the first ran runs after it.', {
    'deduplication.keepLastIfActive runs the last that was added while the first ran': {
      DeduplicationOptions: ['keepLastIfActive'],
    },
    'deduplication.keepLastIfActive while the first waits in line: one run, as for any that waits':
      '`deduplication.keepLastIfActive` while the first waits in line',
  }),
  differs('Jobs of one queue, name and resource share one result; other queues have their own.', {
    'dedupe: jobs of two queues that name one resource keep their own results':
      '`dedupe` in two queues',
  }),

  differs('The worker still knows its rate, and when the first delayed job is due.', {
    'a job that is tried again later: without a next job the reply says nothing':
      'a delayed job or a rate, while another job is tried again later',
  }),

  // Removing
  differs('It goes on. With BullMQ it waits for its children without end.', {
    'a job of a scheduler that waits for children, of which the last is removed, runs':
      'a job of a scheduler that waits for a child that is removed',
  }),
  differs('That job still waits. With BullMQ it is lost, and `obliterate` leaves its hash.', {
    'drain leaves the next job of a scheduler waiting':
      '`drain` while the next job of a scheduler waits',
  }),
  same('What is removed holds up nothing: the next job starts at once.', {
    'drain removes all that wait in line, and the next job starts at once': { Queue: ['drain'] },
    'drain(true) removes those that wait in line, and the next job starts at once':
      '`drain(true)` of jobs that wait in line',
    'drain(true) removes delayed jobs, and the next job starts at once':
      '`drain(true)` of delayed jobs',
    'drain counts and leaves what BullMQ leaves': 'what `drain` leaves',
    'clean("wait") removes those that wait in line, and the next job starts at once':
      '`clean("wait")`, and the next job',
    'clean("delayed") removes delayed jobs, and the next job starts at once':
      '`clean("delayed")`, and the next job',
    'job.remove of jobs that wait in line: the next job starts at once': {
      Job: ['remove'],
      'queueEvents.on': ['removed'],
    },
    'queue.remove of jobs that wait in line: the next job starts at once': { Queue: ['remove'] },
    'a plain queue removes jobs that wait in line: the next job starts at once':
      'a plain `Queue` or a dashboard that removes jobs',
    'the head of a line is removed while no job of it runs: the next one starts at once':
      'the first of a line is removed before any runs',
    'obliterate leaves no place behind: ids begin again, and the next job starts at once': {
      Queue: ['obliterate'],
    },
    'removeUnprocessedChildren: the next job of the children’s customer starts at once': {
      Job: ['removeUnprocessedChildren'],
    },
  }),
  same('`wait` cleans those that wait in line; `delayed` spares them.', {
    'clean("wait") takes up to its limit of those that wait in line, and returns their ids': {
      Queue: ['clean'],
    },
    'clean("prioritized") takes up to its limit, those with the highest priority':
      '`clean("prioritized")` with a limit',
    'clean("wait") spares jobs that are younger than its grace': '`clean("wait")` with a grace',
    'clean("delayed") spares those that wait in line': '`clean("delayed")` beside a line',
    'clean("completed") and clean("failed") remove finished jobs': '`clean` of finished jobs',
  }),
  same(AS_BULLMQ, {
    'obliterate needs force while a job runs': '`obliterate` without `force`',
    'a job that runs cannot be removed': '`remove` of a job that runs',
    'removeOnComplete and removeOnFail leave nothing behind': {
      JobsOptions: ['removeOnComplete', 'removeOnFail'],
    },
    'removeOnComplete keeps the number of jobs that it names': {
      JobsOptions: ['removeOnComplete.count', 'removeOnComplete.age', 'removeOnComplete.limit'],
    },
    'removeOnComplete and removeOnFail of the worker': {
      WorkerOptions: ['removeOnComplete', 'removeOnFail'],
    },
    'removeOrphanedJobs removes nothing that waits in line, and none of our keys': {
      Queue: ['removeOrphanedJobs'],
    },
  }),

  // Order
  differs('The order of adding wins; `within: "priority"` gives BullMQ’s.', {
    'priorities within a customer: the order of adding wins': { JobsOptions: ['priority'] },
    'lifo within a customer: the order of adding wins': { JobsOptions: ['lifo'] },
  }),
  same('With `within: "priority"` as in BullMQ.', {
    'within: "priority": priorities within a customer mean what they mean in BullMQ':
      '`within: "priority"`',
    'within: "priority": the order of jobs that were added before any worker started':
      '`within: "priority"` before any worker starts',
    'within: "priority": delayed jobs that are promoted or due take their places by priority':
      '`within: "priority"` and `delay`',
    'within: "priority": a delayed job that is due when another job is tried again takes its place by priority':
      '`within: "priority"`, `delay`, and a retry at once',
    'within: "priority": a failed job that is retried by hand takes its place by priority':
      '`within: "priority"` and `job.retry`',
    'within: "priority": changePriority of a job that waits in line':
      '`within: "priority"` and `changePriority`',
    'within: "priority": lifo within a customer means what it means in BullMQ':
      '`within: "priority"` and `lifo`',
  }),
  same('Between customers as in BullMQ.', {
    'priorities between customers mean what they mean in BullMQ': 'priorities between customers',
    'lifo between customers means what it means in BullMQ': '`lifo` between customers',
    'changePriority of a job that waits in line counts against other customers': {
      Job: ['changePriority'],
    },
  }),
  same('A job that waits in line shows what it was given.', {
    'a job that waited in line shows the priority, delay and options that it was given': {
      Job: ['opts', 'priority', 'delay'],
    },
    'Job.fromId, Job.fromJSON, toJSON and asJSON of a job that waits in line': {
      Job: ['Job.fromId', 'Job.fromJSON', 'Job.optsFromJSON', 'toJSON', 'asJSON', 'asJSONSandbox'],
    },
    'counts and lists of jobs that wait in line and of delayed ones, before any worker starts': {
      Queue: ['getJob'],
      Job: ['data', 'name', 'id'],
    },
  }),
  same('A delayed job holds up nothing until it is due.', {
    'a delayed job runs when it is due, and holds up nothing until then': {
      JobsOptions: ['delay'],
      Job: ['changeDelay'],
      'queueEvents.on': ['duplicated'],
    },
    'promote of a delayed job': { Job: ['promote'] },
    'promoteJobs wakes delayed jobs, and those that wait in line keep their order': {
      Queue: ['promoteJobs'],
    },
  }),
  same('Refused by BullMQ: a job that waits in line is not delayed.', {
    'changeDelay and promote of a job that waits in line are refused, as of any that waits':
      '`changeDelay` and `promote` of a job that waits in line',
  }),
  differs('The customer’s other jobs wait for it; `order: "relaxed"` lets them pass.', {
    'a retry with backoff: the customer’s other jobs wait for it': {
      JobsOptions: ['backoff'],
    },
    'a retry without backoff runs at once, before the customer’s other jobs': {
      JobsOptions: ['attempts'],
    },
    'moveToDelayed and DelayedError: the customer’s other jobs wait for it': {
      Job: ['moveToDelayed'],
    },
  }),
  same('As BullMQ: others pass.', {
    'order: "relaxed": a retry with backoff lets others pass': 'a retry with `order: "relaxed"`',
  }),
  same(AS_BULLMQ, {
    'attempts, attemptsMade, attemptsStarted and failedReason of a job that fails for good': {
      Job: ['attemptsMade', 'attemptsStarted', 'failedReason', 'stacktrace'],
    },
    'a job that fails for good while others wait: they run': {
      'queueEvents.on': ['failed'],
    },
    'backoff: fixed, exponential and with jitter give as many attempts': {
      JobsOptions: ['backoff.type', 'backoff.delay', 'backoff.jitter'],
    },
    'settings.backoffStrategy is called, and the job runs again': {
      WorkerOptions: ['settings', 'settings.backoffStrategy'],
    },
    'UnrecoverableError ends a job without another attempt': '`UnrecoverableError`',
    'moveToWait and WaitingError: the job runs again at once': { Job: ['moveToWait'] },
    'job.retry of a failed job puts it behind those that wait': { Job: ['retry'] },
    'job.retry of a parent that has waited for its children puts it behind those that wait':
      '`job.retry` of a parent that waited for its children',
    'retryJobs runs all that failed again, in their order': { Queue: ['retryJobs'] },
    'retryJobs of completed jobs runs them again': '`retryJobs` of completed jobs',
    'keepLogs and stackTraceLimit of a job that waited in line': {
      JobsOptions: ['keepLogs', 'stackTraceLimit'],
    },
  }),
  differs('It fails at once, without a reason. With BullMQ it stays active until it has stalled.', {
    'a processor that throws undefined or null: the job fails at once':
      'a processor that throws `undefined` or `null`',
  }),
  differs(
    'It fails at once, and an error says why. With BullMQ it stays active until it has stalled.',
    {
      'a backoff that throws, or has no strategy: the job fails at once, and an error says why':
        'a job whose backoff throws, or has no strategy',
    },
  ),

  differs('It goes with its queue. With BullMQ it stays, and runs when its child has ended.', {
    'obliterate takes a parent whose child waits in another queue, and the child runs':
      '`obliterate` and a parent whose child waits in another queue',
  }),

  // Jobs of a plain queue, and schedulers
  same('They take their place at their first start, in the order of adding.', {
    'jobs of a plain Queue and a cold worker of concurrency 2: in order':
      'a plain `Queue`, and a worker of concurrency 2 that starts late',
    'jobs of a plain Queue and a cold worker of concurrency 5: in order':
      'a plain `Queue`, and a worker of concurrency 5 that starts late',
    'jobs of a plain Queue and a cold worker of concurrency 16: in order':
      'a plain `Queue`, and a worker of concurrency 16 that starts late',
  }),
  same('Each runs once; two that start at the same moment may change their order.', {
    'jobs of a plain Queue and a running worker: each runs once, and none overlaps':
      'a plain `Queue` and a running worker',
  }),
  same('No job is lost, and no two of a customer overlap.', {
    'jobs of a plain Queue beside those of a LockedQueue: none is lost, none overlaps':
      'a plain `Queue` beside a `LockedQueue`',
    'lockedProcessor in a plain Worker: no two jobs of a customer at once, and every job runs':
      '`lockedProcessor` in a plain `Worker`',
    'upsertJobScheduler: its jobs run one at a time, and behind what waits in line': {
      Queue: ['upsertJobScheduler'],
      RepeatOptions: ['every', 'limit', 'count'],
      Job: ['repeatJobKey'],
    },
  }),
  differs('A plain `Worker` wakes no job that waits in line; use `LockedWorker`.', {
    'a plain Worker on a LockedQueue: what waits in line waits for a LockedWorker':
      'a plain `Worker` or `lockedProcessor` with a `LockedQueue`',
  }),
  differs(
    'Jobs of a plain `Queue` that wait are started once more: that is how they join the line.',
    {
      'active events and attemptsStarted of jobs of a plain Queue: one more for each that waited':
        '`active` events of jobs of a plain `Queue`',
    },
  ),
  differs('They are started once more where others of their customer are ahead of them.', {
    'active events and attemptsStarted of a job that is promoted or retried while others run: one more':
      '`active` events of jobs that are promoted, retried by hand, or due',
  }),
  same(AS_BULLMQ, {
    'a scheduler that is faster than its jobs keeps two unfinished, and goes on':
      'a scheduler that is faster than its jobs',
    'getJobScheduler, getJobSchedulers, getJobSchedulersCount and removeJobScheduler': {
      Queue: [
        'getJobScheduler',
        'getJobSchedulers',
        'getJobSchedulersCount',
        'removeJobScheduler',
        'jobScheduler',
      ],
      Worker: ['jobScheduler'],
    },
    'a scheduler with a pattern and immediately, startDate and endDate': {
      RepeatOptions: ['pattern', 'immediately', 'startDate', 'endDate'],
    },
    'removeJobScheduler leaves its job that waits in line, and removes one that is delayed':
      '`removeJobScheduler` while its job waits in line',
    'a scheduler that is set again while the queue is paused keeps the job that it added before':
      'a scheduler that is set again while the queue is paused',
  }),
  untouched('BullMQ’s scheduler works out the next time; no job takes part.', {
    RepeatOptions: ['key', 'offset', 'prevMillis', 'jobId', 'tz'],
    QueueOptions: ['settings'],
    WorkerOptions: ['settings.repeatStrategy', 'settings.repeatKeyHashAlgorithm'],
  }),

  // What a queue says of its jobs
  same(WAITING, {
    'counts and lists of jobs that wait in line and of delayed ones, before any worker starts': {
      Queue: [
        'getJobCounts',
        'getJobCountByTypes',
        'count',
        'getDelayedCount',
        'getWaiting',
      ].concat(
        'getDelayed',
        'getJobs',
        'getRanges',
        'exportPrometheusMetrics',
        'recordJobCountsMetric',
      ),
      'In use': ['pages of `getWaiting` and `getJobs`', '`getJobs` in descending order'],
    },
    'counts, lists and states of jobs while one of their line runs': {
      Queue: ['getWaitingCount', 'getActiveCount', 'getCompletedCount', 'getFailedCount'].concat(
        'getActive',
        'getFailed',
        'getCompleted',
        'getJobState',
      ),
      Job: ['getState', 'isWaiting', 'isActive', 'isFailed', 'isCompleted', 'isWaitingChildren'],
    },
    'getPrioritized, getPrioritizedCount and getCountsPerPriority see those that wait in line': {
      Queue: ['getPrioritized', 'getPrioritizedCount', 'getCountsPerPriority'],
    },
    'getState of a delayed job and of a prioritized one that waits in line': {
      Job: ['isDelayed'],
    },
  }),
  same(AS_BULLMQ, {
    'getJobLogs, addJobLog, job.log and clearLogs': {
      Queue: ['getJobLogs', 'addJobLog'],
      Job: ['log', 'clearLogs', 'Job.addJobLog'],
    },
    'job.updateProgress and queue.updateJobProgress of a job that waits in line': {
      Queue: ['updateJobProgress'],
      Job: ['updateProgress', 'progress'],
    },
    'getMetrics counts finished jobs once': {
      Queue: ['getMetrics'],
      WorkerOptions: ['metrics', 'metrics.maxDataPoints'],
    },
    'getWorkers, getWorkersCount, getMeta and getVersion': {
      Queue: ['getWorkers', 'getWorkersCount', 'getMeta', 'getVersion'],
      WorkerOptions: ['name'],
    },
    'worker.name is shown by the job as processedBy': {
      Job: ['processedBy', 'processedOn', 'finishedOn'],
    },
    'the result of a job is what its processor returned': {
      Job: ['returnvalue', 'waitUntilFinished'],
      'queueEvents.on': ['completed'],
    },
  }),

  // Events
  same('Once for each job, also for one that waits in line.', {
    'queue events of three jobs of one customer: each is added, waits, runs and completes once': {
      'queueEvents.on': ['delayed', 'active'],
    },
    'queue events of three jobs of one customer with a priority: each waits once': {
      'queueEvents.on': ['waiting'],
    },
  }),
  same(AS_BULLMQ, {
    'queue.on("waiting") hears of every job that is added': { 'queue.on': ['waiting'] },
    'queueEvents: a job that waits in line is removed as a waiting one':
      '`removed` event of a job that waits in line',
    'queue.on: cleaned, removed, progress, paused and resumed': {
      'queue.on': ['cleaned', 'removed', 'progress', 'paused', 'resumed'],
    },
    'queueEvents: progress, removed, cleaned, drained, deduplicated, duplicated, failed and retries-exhausted':
      {
        'queueEvents.on': ['progress', 'cleaned', 'retries-exhausted', 'paused', 'resumed'],
      },
    'worker.on: ready, active, progress, completed, failed, drained, paused, resumed, closing, closed':
      {
        'worker.on': [
          ...['ready', 'active', 'progress', 'completed', 'failed', 'paused', 'resumed', 'closing'],
          ...['closed'],
        ],
      },
    'drained comes once after the last of many jobs of one customer, of worker and queue': {
      'worker.on': ['drained'],
      'queueEvents.on': ['drained'],
    },
    'drained comes once where jobs are tried again at once, and where those of a plain Queue wait':
      '`drained` of jobs that are tried again, and of a plain `Queue`',
    'drained comes once for each time, also where another loop of the worker looks meanwhile':
      '`drained`, with a `concurrency` above 1',
    'the stalled event names a job whose worker died': {
      'worker.on': ['stalled'],
      'queueEvents.on': ['stalled'],
    },
    'locksRenewed is emitted while a job runs': {
      'worker.on': ['locksRenewed'],
      WorkerOptions: ['lockRenewTime'],
    },
  }),
  differs('The signal aborts as well.', {
    'lockRenewalFailed: the signal aborts when BullMQ’s lock on the job is lost': {
      'worker.on': ['lockRenewalFailed'],
    },
  }),
  untouched('The connection’s own event; no job takes part.', {
    'queue.on': ['error', 'ioredis:close'],
    'worker.on': ['error', 'ioredis:close'],
    'queueEvents.on': ['error', 'ioredis:close'],
  }),

  // Flows
  same('Children run before their parent, also those of its customer.', {
    'a flow of one customer: the children run, then their parent': {
      FlowProducer: ['add'],
      Job: ['getChildrenValues', 'parent', 'parentKey'],
    },
    'a flow of three levels and two customers runs from the leaves to the root': {
      FlowProducer: ['addBulk'],
    },
  }),
  same('The parent’s place yields to its children.', {
    'moveToWaitingChildren with children of the same customer: they run, then the parent continues':
      {
        Job: ['moveToWaitingChildren'],
        'queueEvents.on': ['waiting-children'],
      },
    'moveToWaitingChildren: what was added behind the parent runs after it, or between':
      '`moveToWaitingChildren` while others wait',
    'moveToWaitingChildren without pending children continues at once':
      '`moveToWaitingChildren` without children',
  }),
  same(AS_BULLMQ, {
    'failParentOnFailure: the parent of a failed child fails, and the next job starts': {
      JobsOptions: ['failParentOnFailure'],
      Job: ['deferredFailure'],
    },
    'ignoreDependencyOnFailure, continueParentOnFailure and removeDependencyOnFailure let the parent run':
      {
        JobsOptions: [
          'ignoreDependencyOnFailure',
          'continueParentOnFailure',
          'removeDependencyOnFailure',
        ],
        Job: ['getIgnoredChildrenFailures', 'getFailedChildrenValues'],
      },
    'getFlow, getDependencies and getDependenciesCount see a child that waits in line as unprocessed':
      {
        FlowProducer: ['getFlow'],
        Queue: ['getDependencies', 'getWaitingChildren', 'getWaitingChildrenCount'],
        Job: ['getDependencies', 'getDependenciesCount'],
      },
    'removeChildDependency frees the parent, and both run': { Job: ['removeChildDependency'] },
  }),

  // The worker
  same(AS_BULLMQ, {
    'run a second time throws, and isRunning is true from the start': {
      Worker: ['run', 'isRunning'],
    },
    'autorun: false: nothing is fetched until run is called': {
      WorkerOptions: ['autorun'],
      Worker: ['waitUntilReady'],
    },
    'concurrency can be changed at run time': {
      Worker: ['concurrency'],
      WorkerOptions: ['concurrency'],
    },
    'setGlobalConcurrency bounds all workers, and isMaxed says so': {
      Queue: ['setGlobalConcurrency', 'getGlobalConcurrency', 'removeGlobalConcurrency', 'isMaxed'],
    },
    'global concurrency of one and two customers: every job runs, in order':
      'a global concurrency of 1 with several customers',
    'setGlobalRateLimit bounds the queue, and removeGlobalRateLimit lifts it': {
      Queue: ['setGlobalRateLimit', 'getGlobalRateLimit', 'removeGlobalRateLimit'],
    },
    'queue.rateLimit, getRateLimitTtl and removeRateLimitKey': {
      Queue: ['getRateLimitTtl', 'removeRateLimitKey'],
    },
    'queue.rateLimit and RateLimitError: the job runs again, no attempt is used': {
      Queue: ['rateLimit'],
      Worker: ['Worker.RateLimitError'],
    },
    'worker.rateLimit and RateLimitError: the job runs again': { Worker: ['rateLimit'] },
    'a limiter with jobs of a LockedQueue': {
      WorkerOptions: ['limiter', 'limiter.max', 'limiter.duration'],
    },
    'a limiter counts each job of a plain Queue once': '`limiter` with jobs of a plain `Queue`',
    'worker.pause, isPaused and resume': { Worker: ['resume', 'isPaused'] },
    'worker.pause waits for the running job, and the customer’s next one is left for others': {
      Worker: ['pause'],
    },
    'queue.pause, isPaused and resume: what waits in line stays, and continues': {
      Queue: ['pause', 'resume', 'isPaused'],
    },
    'worker.close waits for the running job': { Worker: ['close'] },
    'stalledCounter, the stalled event and maxStalledCount': {
      Job: ['stalledCounter'],
    },
    'startStalledCheckTimer by hand finds a job whose worker died': {
      Worker: ['startStalledCheckTimer'],
      WorkerOptions: ['skipStalledCheck'],
    },
    'extendLock and extendJobLocks with job.token': {
      Job: ['extendLock', 'token'],
      Worker: ['extendJobLocks'],
    },
    'telemetry: a span for each add and each process': {
      QueueOptions: ['telemetry'],
      WorkerOptions: ['telemetry'],
      JobsOptions: ['telemetry'],
    },
    'its own prefix for queue and worker': {
      QueueOptions: ['prefix'],
      WorkerOptions: ['prefix'],
      Queue: ['toKey', 'keys'],
    },
    'defaultJobOptions of the queue: attempts, priority and delay': {
      QueueOptions: ['defaultJobOptions'],
      Queue: ['defaultJobOptions', 'jobsOpts'],
    },
  }),
  differs('They follow from the length of the lease, unless they are given.', {
    'worker.opts: lockDuration, stalledInterval and maxStalledCount follow from the lease': {
      Worker: ['opts'],
      WorkerOptions: ['lockDuration', 'stalledInterval', 'maxStalledCount'],
    },
  }),
  same('An option that is given holds.', {
    'lockDuration, stalledInterval and maxStalledCount from the options hold':
      '`lockDuration`, `stalledInterval` and `maxStalledCount` that are given',
  }),
  differs('Its default counts. BullMQ refuses some, and with others it runs no job.', {
    'options of a worker that are undefined: the defaults count':
      'an option of the worker that is `undefined`',
  }),
  same(AS_BULLMQ, {
    'cancelJob and cancelAllJobs: the signal aborts with the reason': {
      Worker: ['cancelJob', 'cancelAllJobs'],
    },
    'worker.close(true): the abandoned job runs again as soon as with BullMQ':
      '`worker.close(true)`',
    'moveToCompleted by hand fetches the customer’s next job': { Job: ['moveToCompleted'] },
    'getNextJob by hand of a job of a scheduler: the next one is added':
      '`getNextJob` of a job of a scheduler',
    'moveToFailed by hand, with attempts left and without': { Job: ['moveToFailed'] },
    'getNextJob of a plain Worker and moveToCompleted: a worker runs the customer’s next job':
      '`getNextJob` of a plain `Worker`',
  }),
  differs('Jobs that are fetched by hand come in turn, but without a lease: use `redlock.using`.', {
    'getNextJob by hand: the customer’s next job comes when the first one is finished': {
      Worker: ['getNextJob'],
    },
    'getNextJob by hand: a job whose delay has ended waits for those of its customer':
      '`getNextJob` of a delayed job that is due',
  }),
  differs('The processor runs under a lease.', {
    'processJob of a job that was fetched by hand: the processor runs under a lease': {
      Worker: ['processJob'],
    },
  }),
  differs('The customer’s other jobs wait until it ran again.', {
    'a job whose worker died runs again, and the customer’s others wait for it':
      'a worker that dies',
  }),
  refused('A job that waits for its resource may be started several times; use `attempts`.', {
    'maxStartedAttempts is refused': { WorkerOptions: ['maxStartedAttempts'] },
  }),
  refused('A job without its BullMQ lock runs twice; leave the renewal to the worker.', {
    'skipLockRenewal is refused': { WorkerOptions: ['skipLockRenewal'] },
  }),
  differs('An active job that waits for its lease goes back at once, and does not stall.', {
    'worker.close(true) while an active job waits for its lease: the job stalls, or goes back':
      '`worker.close(true)` while a job waits for its lease',
  }),
  differs('Without a next job it returns undefined; BullMQ returns an empty array.', {
    'a job that is tried again later: without a next job the reply says nothing':
      '`moveToFailed` by hand of a job with backoff',
    'a job that ends and asks for no other: the reply says nothing':
      '`moveToCompleted` by hand without `fetchNext`',
  }),
  differs('The clock of the queue’s Redis counts, not that of a process.', {
    'a delayed job of a process whose clock is a minute ahead runs in time':
      'a process whose clock is wrong',
  }),
  refused('A job without a processor has no lease; give a function, and `autorun: false`.', {
    'a worker without a processor is refused': 'a worker without a processor',
  }),
  refused('A processor file cannot be given a lease; call it from a function.', {
    'a sandboxed processor is refused': {
      WorkerOptions: ['useWorkerThreads', 'workerForkOptions', 'workerThreadsOptions'],
    },
  }),

  // How it is written
  same('The resource is recorded with the place; later data do not change it.', {
    'updateData that changes the customer: the next job of the first customer starts in order': {
      Job: ['updateData'],
    },
    'updateData that removes the customer: the retry runs under the same lease':
      '`updateData` that removes what `resource` reads',
  }),
  same('The lease stands for the token in BullMQ’s own methods.', {
    'the second parameter of a processor stands for the token in BullMQ’s own methods':
      'a processor’s second parameter, used as the token',
    'types: the second parameter as the token': 'types: the second parameter as the token',
  }),
  differs('It is an object, whose text is the token: `String(lease)`.', {
    'typeof of the second parameter of a processor': '`typeof` of a processor’s second parameter',
  }),
  same(AS_BULLMQ, {
    'the third parameter of a processor is the signal': 'a processor’s third parameter',
  }),
  differs('Jobs of one customer run one at a time, whatever the concurrency; `slots` allow more.', {
    'concurrency: jobs of one customer run one at a time, those of two customers together':
      '`concurrency`, and jobs of one customer',
  }),
  differs('A processor starts some milliseconds later: its job takes its lease first.', {
    'each job takes its lease before its processor starts': 'how soon a processor starts',
  }),
  differs('Every job has a signal; BullMQ makes one where the processor has a third parameter.', {
    'every job has a signal, also where its processor takes no third parameter':
      '`cancelJob`, and a processor without a third parameter',
  }),
  same('Compiles as with BullMQ.', {
    'types: a queue and a worker of any data': 'types: any data',
    'types: a queue and a worker of typed data': 'types: typed data',
    'types: data, result and name': 'types: data, result and name',
    'types: addBulk and schedulers': 'types: `addBulk` and schedulers',
    'types: listeners': 'types: listeners',
    'types: a variable of BullMQ’s type': 'types: a variable of BullMQ’s type',
    'types: a class of the caller': 'types: a class of the caller',
    'types: a function of the job as BullMQ’s Processor': 'types: a `Processor` of the job',
    'types: a Processor of job, token and signal': 'types: a `Processor` of job, token and signal',
    'types: BullMQ’s options in a variable': 'types: BullMQ’s options in a variable',
  }),
  refused('An error names the option.', {
    'an option of the worker that does not exist is refused':
      'an option of the worker that does not exist',
    'an option of the queue that does not exist is refused':
      'an option of the queue that does not exist',
    'a queue without `resource` is refused': 'a `LockedQueue` without `resource`',
  }),
  refused(
    'An error says that the name is made of a missing value; give `resource` what it reads.',
    {
      'a resource that is made of an undefined value is refused when the job is added':
        'a resource made of an undefined value',
    },
  ),
  differs(
    'A step gives what JSON keeps of its result, also the first time: a `Date` is a string.',
    {
      'checkpoints: a step’s result comes back as JSON keeps it, a Date as a string':
        '`checkpoints` and a `Date`',
    },
  ),

  // Connections
  same(AS_BULLMQ, {
    'a node-redis client as the connection': 'a node-redis client as the connection',
    'an ioredis client with enableAutoPipelining as the connection':
      'an ioredis client with `enableAutoPipelining`',
    'an ioredis client as the connection': {
      QueueOptions: ['connection'],
      WorkerOptions: ['connection'],
      Queue: ['close'],
    },
    'skipVersionCheck, skipWaitingForReady, skipMetasUpdate and streams are taken': {
      QueueOptions: ['skipVersionCheck', 'skipWaitingForReady', 'skipMetasUpdate', 'streams'],
      WorkerOptions: ['skipVersionCheck', 'skipWaitingForReady'],
      Queue: ['waitUntilReady'],
    },
    'jobs continue in order when the queue’s Redis is back': 'the queue’s Redis restarts',
    'getBackend is BullMQ’s Redis backend, of queue and worker': {
      Queue: ['getBackend', 'name', 'qualifiedName'],
      Worker: ['getBackend', 'name', 'qualifiedName'],
    },
  }),
  differs('Ends when the worker is resumed; BullMQ waits until it is paused or closed again.', {
    'worker.pause ends when the worker is resumed while a job runs':
      '`worker.pause`, and `worker.resume` before it has ended',
  }),
  differs('Ends, where BullMQ waits for the server.', {
    'worker.close ends while the queue’s Redis is away':
      '`worker.close` while the queue’s Redis is away',
    'queue.close ends while the queue’s Redis is silent':
      '`queue.close` while the queue’s Redis is silent',
    'drain ends within its time while the queue’s Redis is away':
      '`worker.drain` while the queue’s Redis is away',
  }),
  differs('There are lock masters; a worker runs while a quorum of them votes.', {
    'a master that is refused does not keep a worker from starting while a quorum votes':
      'a lock master that is refused',
    'redlock.close while a job runs gives it back, and no attempt is used':
      '`redlock.close` before `worker.close`',
  }),
  untouched('BullMQ’s own connection, name or key; no job takes part.', {
    Queue: ['backend', 'closing', 'disconnect', 'getQueueEvents', 'trace', 'token', 'opts'],
    Worker: ['id', 'toKey', 'keys', 'closing', 'backend', 'disconnect', 'trace'],
    FlowProducer: [
      ...['toKey', 'keys', 'closing', 'opts', 'waitUntilReady', 'getBackend', 'close'],
      ...['disconnect'],
    ],
    Job: ['queueQualifiedName', 'queueName', 'prefix', 'toFlowEntry'],
    QueueOptions: ['blockingConnection'],
    WorkerOptions: ['blockingConnection'],
  }),
  untouched('BullMQ’s own code sets or reads a value of the queue; no job takes part.', {
    Queue: ['metaValues', 'trimEvents', 'removeDeprecatedPriorityKey'],
  }),
  untouched('How long BullMQ’s own loop waits; handed to it as it is.', {
    Worker: ['minimumBlockTimeout', 'maximumBlockTimeout', 'delay'],
    WorkerOptions: ['maximumRateLimitDelay', 'drainDelay', 'runRetryDelay'],
  }),
  untouched('Node’s event emitter; the events have rows of their own.', {
    Queue: ['emit', 'off', 'on', 'once'],
    Worker: ['emit', 'off', 'on', 'once'],
    FlowProducer: ['emit', 'off', 'on', 'once'],
  }),
  untouched('Set by BullMQ’s scheduler, not by those who add.', {
    JobsOptions: ['repeatJobKey', 'prevMillis'],
  }),
].flat()

/** By the title of their test; a text is a member of `In use`. */
type Tests = Readonly<Record<string, Members | string>>

function same(how: string, tests: Tests): Row[] {
  return shown('same', how, tests)
}

function differs(how: string, tests: Tests): Row[] {
  return shown('differs', how, tests)
}

function refused(how: string, tests: Tests): Row[] {
  return shown('refused', how, tests)
}

/** `why` it cannot differ. */
function untouched(why: string, members: Members): Row[] {
  return rowsOf('same', why, undefined, members)
}

function shown(verdict: Verdict, how: string, tests: Tests): Row[] {
  return Object.entries(tests).flatMap(([test, members]) =>
    rowsOf(verdict, how, test, typeof members === 'string' ? { 'In use': [members] } : members),
  )
}

function rowsOf(verdict: Verdict, how: string, test: string | undefined, members: Members): Row[] {
  return Object.entries(members).flatMap(([section, names]) =>
    names.map((member) => ({ section: section as RowSection, member, verdict, how, test })),
  )
}
