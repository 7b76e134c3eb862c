/**
 * Refuses a BullMQ whose scripts are not as the composed scripts need them. Looks at the texts and
 * at the arguments that BullMQ's backend builds; no server is asked and no key is touched.
 */
import * as bullmq from 'bullmq'
import { ADDS, FETCHES } from '../line-scripts.ts'
import {
  BULLMQ_FUNCTIONS,
  bullmqScripts,
  hasFunction,
  passedOn,
  unlike,
} from './composed-script.ts'

/** How BullMQ stores a job. */
const STORES =
  /rcall\("HMSET", jobIdKey, "name", name, "data", data, "opts", jsonOpts,\s+"timestamp", timestamp, "delay", delay, /

/** Scripts of BullMQ that are composed, and text on which the composition relies. */
const SCRIPTS: Readonly<Record<string, readonly RegExp[]>> = {
  ...{ addParentJob: [STORES], moveToWaitingChildren: [], changePriority: [], removeJob: [] },
  ...{ drain: [], cleanJobsInSet: [], getCounts: [], getJobs: [], getRanges: [] },
  ...{ getState: [], getStateV2: [], reprocessJob: [], pause: [] },
  addStandardJob: [STORES, /rcall\(pushCmd, targetKey, jobId\)/],
  addPrioritizedJob: [STORES, /rcall\("ZADD", prioritizedKey, score, jobId\)/],
  addDelayedJob: [STORES, /rcall\("ZREM", delayedKey, currentDeduplicatedJobId\)/],
  moveToFinished: [
    /^local rcall = redis\.call$/m,
    /rcall\("RPOPLPUSH", waitKey, activeKey\)/,
    /rcall\("HMSET", jobKey, "processedOn"/,
    /rcall\("HINCRBY", jobKey, "ats", 1\)/,
    /return \{rcall\("HGETALL", jobKey\), jobId, 0, 0\}/,
    /cmsgpack\.unpack\(ARGV\[8\]\)/,
  ],
  moveToActive: [/^local rcall = redis\.call$/m, /rcall\("RPOPLPUSH", waitKey, activeKey\)/],
  moveToDelayed: [/rcall\("ZADD", delayedKey, score, jobId\)/],
  obliterate: [/rcall\("DEL", jobKey/],
  promote: [/rcall\("ZREM", KEYS\[1\], jobId\)/],
  changeDelay: [
    /rcall\("ZREM", KEYS\[1\], jobId\)/,
    /getDelayedScore\(KEYS\[1\], ARGV\[2\], delay\)/,
  ],
  addJobScheduler: [/^local now = tonumber\(ARGV\[7\]\)$/m],
  updateJobScheduler: [/^local timestamp = tonumber\(ARGV\[5\]\)$/m],
  moveJobsToWait: [/rcall\('ZRANGEBYSCORE', KEYS\[3\]/],
}

const ADDS_USE = ['getOrSetMaxEvents', 'isQueuePausedOrMaxed']
/** Functions of BullMQ's scripts that ours call or replace. */
const FUNCTIONS: Readonly<Record<string, readonly string[]>> = {
  moveToFinished: Object.keys(BULLMQ_FUNCTIONS).filter((name) => !ADDS_USE.includes(name)),
  moveToActive: ['getQueueMetadata', 'getRateLimitTTL', 'prepareJobForProcessing'],
  addStandardJob: ADDS_USE,
  addPrioritizedJob: ADDS_USE,
}

/** Scripts that put delayed jobs among those that wait. With ours, these take their places. */
const PROMOTING = ['moveToFinished', ...FETCHES]

/** Scripts whose functions are made once a call, or on demand. Those of one list share them. */
const REPEATED = [['moveToFinished'], FETCHES, ADDS]

/** Options that BullMQ packs for `moveToFinished`, with the token: those of `together.ts`. */
const FINISH_OPTIONS = 11

type Args = readonly unknown[] | undefined

let result: { readonly problem: string | undefined } | undefined

/** @throws TypeError that says what to install. */
export function requireKnownBullmq(): void {
  result ??= { problem: findProblem() }
  if (result.problem === undefined) {
    if (bullmq.getDefaultBackendFactory() === bullmq.createRedisBackend) return
    throw new TypeError(
      'Lines need the Redis backend of BullMQ, and another one is its default. Call setDefaultBackendFactory() without an argument',
    )
  }
  const fix = 'Install a release of bullmq 6 that docs/compatibility.md names'
  throw new TypeError(`This release of bullmq is not supported: ${result.problem}. ${fix}`)
}

function findProblem(): string | undefined {
  const known = bullmq as Partial<typeof bullmq>
  const { RedisQueueBackend, createRedisBackend, raw2NextJobData } = known
  if (RedisQueueBackend === undefined || createRedisBackend === undefined) {
    return 'it exports no RedisQueueBackend'
  }
  if (raw2NextJobData === undefined) return 'it exports no raw2NextJobData'
  const scripts = bullmqScripts()
  for (const [name, texts] of Object.entries(SCRIPTS)) {
    const script = scripts.get(name)
    if (script === undefined) return `it has no script \`${name}\``
    const missing = texts.find((text) => !text.test(script.lua))
    if (missing !== undefined) return `its script \`${name}\` does not contain ${String(missing)}`
  }
  for (const [script, names] of Object.entries(FUNCTIONS)) {
    const changed = names.find((name) => !hasFunction(scripts.get(script)?.lua ?? '', name))
    if (changed !== undefined) return `its script \`${script}\` has another function \`${changed}\``
  }
  for (const [name, { lua }] of scripts) {
    const promotes = /(?<!function )\bpromoteDelayedJobs\(/.test(lua)
    if (promotes && !PROMOTING.includes(name)) return `its script \`${name}\` promotes delayed jobs`
  }
  for (const names of REPEATED) {
    const texts = names.map((name) => scripts.get(name)?.lua ?? '')
    const passed = texts.map(passedOn).find((name) => name !== undefined)
    if (passed !== undefined) return `one of its scripts passes the function \`${passed}\` on`
    const other = unlike(texts)
    if (other !== undefined) return `its scripts have several functions \`${other}\``
  }
  for (const [name, args, positions] of argumentsOf(new RedisQueueBackend(...nowhere()))) {
    const keys = scripts.get(name)?.numberOfKeys ?? 0
    for (const [at, value] of Object.entries(positions)) {
      if (args?.[keys + Number(at)] !== value) {
        return `argument ${Number(at) + 1} of its script \`${name}\` is not as expected`
      }
    }
    if (name === 'moveToFinished' && entriesOf(args?.[keys + 7]) > FINISH_OPTIONS) {
      return 'its script `moveToFinished` has further options'
    }
  }
  return undefined
}

/** How many entries a map has as MessagePack writes one, or more than any where it is another. */
function entriesOf(packed: unknown): number {
  return Buffer.isBuffer(packed) && packed[0] === 0xde ? packed.readUInt16BE(1) : Infinity
}

/** What the backend would send for a known job, and where the composed scripts look for what. */
function argumentsOf(
  backend: object,
): readonly (readonly [string, Args, Readonly<Record<number, unknown>>])[] {
  const build = backend as Readonly<Record<string, (...args: unknown[]) => Args>>
  const job = { id: '7', name: 'n', opts: { attempts: 1 }, data: '{"a":1}', timestamp: 1 }
  const finished = build['moveToCompletedArgs']?.(job, '1', false, 't', true)
  const parked = build['moveToDelayedArgs']?.('7', 1, 't', 1, {})
  const yielded = build['moveToWaitingChildrenArgs']?.('7', 't', {})
  const changed = build['changePriorityArgs']?.('7', 3, true)
  return [
    ['moveToFinished', finished, { [-3]: 'bull:q:7', 0: '7', 4: 'completed', 5: 1 }],
    ['moveToDelayed', parked, { 0: 'bull:q:', 2: '7' }],
    ['moveToWaitingChildren', yielded, { 3: '7' }],
    ['removeJob', build['removeArgs']?.('7', false), { 0: '7' }],
    ['changePriority', changed, { 0: 3, 2: '7', 3: 1 }],
    ['addStandardJob', build['addStandardJobArgs']?.(job, {}, []), { 1: '{"a":1}' }],
  ]
}

/** A backend that is never connected. */
function nowhere(): ConstructorParameters<typeof bullmq.RedisQueueBackend> {
  const keys = new bullmq.QueueKeys('bull')
  const connection = { on: () => undefined } as unknown as bullmq.RedisConnection
  const toKey = (type: string): string => keys.toKey('q', type)
  return [connection, 'q', keys.getKeys('q'), toKey, { connection: {} }]
}
