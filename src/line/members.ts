/** The jobs that have places in the line of a resource. */
import { limitsFrom, type ResourceLimits } from './limits.ts'
import { ownScript } from './bullmq/composed-script.ts'
import type { LineRunner } from './line-runner.ts'
import { shareFrom, type Share } from './shares.ts'

/** Jobs of a line that are looked at. */
const MAX_MEMBERS = 100
const FIELDS = 5

const placesScript = ownScript('line/lua/places')

/** A job that has a place in a line. */
export interface Member {
  readonly jobId: string
  readonly addedAtMs: number
  readonly state: string
  /** Its state is `delayed`, and its delay is over. */
  readonly isDue: boolean
  /** Of a job that failed and holds the line. */
  readonly failedReason?: string
  /** When a worker was given it; of a job that runs. */
  readonly activeSince?: Date
  /** When its delay or backoff ends; of a job that has one. */
  readonly delayedUntil?: Date
  /** When the rate or the pause of its resource lets it start; of the first job of its line. */
  readonly heldUntil?: Date
  readonly share?: Share
}

interface Members {
  readonly length: number
  readonly limits: ResourceLimits
  readonly members: readonly Member[]
}

/** How many places a line has, its limits, and the jobs at its head. */
export async function membersOf(
  resource: string,
  runner: LineRunner,
  limit: number = MAX_MEMBERS,
): Promise<Members> {
  const reply = await runner.run(placesScript, { most: limit, resource })
  const [length, limits, ...fields] = reply as readonly [number, string, ...string[]]
  const members: Member[] = []
  for (let index = 0; index + FIELDS <= fields.length; index += FIELDS) {
    const [jobId = '', timestamp, share = '', state = '', told = ''] = fields.slice(
      index,
      index + FIELDS,
    )
    const isDue = state === 'due'
    const own = { jobId, state: isDue ? 'delayed' : state, isDue }
    const known = shareFrom(share)
    members.push({
      ...{ ...own, addedAtMs: Number(timestamp) },
      ...(known !== undefined && { share: known }),
      ...(state === 'failed' && { failedReason: told }),
      ...(state === 'active' && told !== '' && { activeSince: new Date(Number(told)) }),
      ...(state === 'delayed' && { delayedUntil: new Date(Number(told)) }),
      ...(state === 'held' && { heldUntil: new Date(Number(told)) }),
    })
  }
  return { length, limits: limitsFrom(limits), members }
}
