/** What keeps jobs of all queues waiting. */
import { added } from '../../added.ts'
import { commandLine } from '../../command-line.ts'
import type { Standstill } from '../../worker/standstill.ts'
import { counted } from '../../counted.ts'
import { findingsOf, type Finding } from '../../services/service-health.ts'
import { censusOf, type Census } from '../../line/census.ts'
import { differencesOf, type SharedSettings } from '../../line/settings-check.ts'
import { messageOf } from '../../message-of.ts'
import { duration } from './words.ts'
import type { Places } from './places.ts'
import type { JobSince } from './jobs.ts'
import { known } from './queue-server.ts'

/** A job that has waited longer is told of. */
const LONG_MS = 60_000
/** For how long a full line is told of. */
const FULL_RECENTLY_MS = 600_000

export interface StandingJobs {
  readonly findings: readonly Finding[]
  /** Of the jobs that start next, the one that has waited longest; undefined where none waits. */
  readonly oldest: JobSince | undefined
}

/** Of all queues. A diagnosis finds why a server tells nothing, unless it denies a command. */
export async function standingJobs(places: Places): Promise<StandingJobs> {
  return ofQueues(places).catch((error: unknown) => {
    const findings = findingsOf(`queue ${places.server.name}`, (report) => {
      const said = messageOf(error)
      if (!said.startsWith('NOPERM')) return
      const fix = 'give this user the rights in deploy/redis/queue.acl'
      report('warning', 'jobs-denied', `its jobs were not looked at: ${said}`, fix)
    })
    return { findings, oldest: undefined }
  })
}

async function ofQueues(places: Places): Promise<StandingJobs> {
  const all = await places.each(async (queue) => {
    const shards = (await places.of(queue)).map(async (place) => {
      const census = await censusOf(place, true)
      return { census, stands: census.waiting > 0 ? await places.standstill(place) : undefined }
    })
    const each = await known(shards)
    const census = together(each.map((shard) => shard.census))
    const stands = each.map((shard) => shard.stands)
    const { oldest: jobId, oldestSinceMs: since = 0 } = census
    return {
      findings: checkJobs(queue, census, stands.find(Boolean), each.length < shards.length),
      oldest: jobId === undefined ? [] : [{ queue, jobId, since }],
    }
  })
  const findings = all.flatMap((each) => each.findings)
  const [oldest] = all.flatMap((each) => each.oldest).sort((a, b) => a.since - b.since)
  return { findings, oldest }
}

/** Of all shards of a queue. Of what is told with an example, the worst shard has it. */
function together(shards: readonly Census[]): Census {
  const worst = (rank: (census: Census) => number): Census =>
    shards.reduce((a, b) => (rank(b) > rank(a) ? b : a))
  const { oldest, oldestSinceMs, oldestMs } = worst((census) => -(census.oldestSinceMs ?? Infinity))
  const { fullAtMs, fullResource } = worst((census) => census.fullAtMs)
  const { waiting, held, refused, dropped } = added(shards)
  return {
    ...worst(({ behind = -1 }) => behind),
    ...{ oldest, oldestSinceMs, oldestMs, fullAtMs, fullResource, waiting, held, refused, dropped },
  } as Census
}

function checkJobs(
  queue: string,
  census: Census,
  stands: Standstill | undefined,
  isPart: boolean,
): readonly Finding[] {
  const { waiting, oldest: oldestId = '', oldestMs, held, heldResource = '' } = census
  const { holder = '', failedReason = '', behind = 0, nowMs, fullAtMs, fullResource } = census
  const { refused, dropped, ofWorker = '', ofProducer = '' } = census
  return findingsOf(`queue ${queue}`, (report) => {
    const some = `${isPart ? 'at least ' : ''}${jobs(waiting)}`
    const oldest = `job ${oldestId} has waited for ${duration(oldestMs)}`
    if (stands !== undefined) {
      const fact = `${some}, and ${oldest}: ${stands.fact}`
      report('warning', 'queue-stands', fact, stands.fix)
    } else if (oldestMs > LONG_MS) {
      const fix = `see why: ${commandLine`why ${queue} ${oldestId}`}`
      report('note', 'long-wait', `${some}, and ${oldest}`, fix)
    }
    if (held > 0) {
      const fact =
        `${held === 1 ? 'a failed job holds a line' : `failed jobs hold ${held} lines`}; ` +
        `${jobs(behind)} behind job ${holder} of \`${heldResource}\`, which failed: ${failedReason}`
      const fix = `${commandLine`retry ${queue} ${holder}`}, or ${commandLine`skip ${queue} ${holder}`}`
      report('warning', 'line-held', fact, fix)
    }
    if (nowMs - fullAtMs <= FULL_RECENTLY_MS) {
      const fact =
        `the line of \`${fullResource}\` was full at ${new Date(fullAtMs).toISOString()}; ` +
        `${counted(refused, 'job was', 'jobs were')} refused and ${dropped} dropped until now`
      const fix = `see what it waits for (${commandLine`inspect ${fullResource}`}), or raise \`maxLength\` of the LockedQueue`
      report('warning', 'line-full', fact, fix)
    }
    const differ = ofWorker === '' || ofProducer === '' ? [] : differences(ofWorker, ofProducer)
    if (differ.length > 0) {
      const fact = `${differ.join(', ')}: jobs of one resource may run at once, or sleep in lines that no worker moves`
      const fix = 'give all processes of the queue the same settings'
      report('warning', 'settings-differ', fact, fix)
    }
  })
}

/** Of the last LockedWorker and the last LockedQueue, which stored their settings as JSON. */
function differences(ofWorker: string, ofProducer: string): readonly string[] {
  const settings = (text: string): SharedSettings => JSON.parse(text) as SharedSettings
  return differencesOf(settings(ofWorker), settings(ofProducer)).map(
    ({ name, here, there }) =>
      `\`${name}\` is ${here} in a LockedWorker and ${there} in a LockedQueue`,
  )
}

function jobs(count: number): string {
  return counted(count, 'job waits', 'jobs wait')
}
