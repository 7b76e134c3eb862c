/** The jobs that have places in the line of a resource. */
import { limitsFrom, type ResourceLimits } from './limits.ts'
import { ownScript } from './bullmq/composed-script.ts'
import type { LineRunner } from './line-runner.ts'
import { shareFrom, type Share } from './shares.ts'

/** Jobs of a line that are looked at. */
const MAX_MEMBERS = 100
const DATES = new Set(['activeSince', 'delayedUntil', 'heldUntil'])

const placesScript = ownScript('line/lua/places')

/** A job that has a place in a line. */
export interface Member {
  readonly jobId: string
  readonly addedAtMs: number
  readonly state: string
  /** Jobs that are ahead of it, running ones included. */
  readonly ahead: number
  /** Of a job that failed and holds the line. */
  readonly failedReason?: string
  /** When a worker was given it; of a job that runs. */
  readonly activeSince?: Date
  /** When its delay or backoff ends; of a job that has one, which is not over. */
  readonly delayedUntil?: Date
  /** When the rate or the pause of its resource lets it start; of the first job of its line. */
  readonly heldUntil?: Date
  readonly share?: Share
  /** The other resources of a job of several. */
  readonly others?: readonly string[]
}

interface Members {
  readonly length: number
  readonly limits: ResourceLimits
  readonly slots: number
  readonly members: readonly Member[]
}

/** How many places a line has, its limits and slots, the jobs at its head, and the one of an id. */
export async function membersOf(
  resource: string,
  runner: LineRunner,
  limit: number = MAX_MEMBERS,
  id?: string,
): Promise<Members> {
  const reply = await runner.run(placesScript, { most: limit, resource, ...(id && { id }) })
  const [length, limits, slots, ...members] = reply as readonly [
    number,
    string,
    number,
    ...string[],
  ]
  const revived = (name: string, value: unknown): unknown => {
    if (name === 'addedAtMs') return Number(value)
    if (name === 'share') return shareFrom(String(value))
    return DATES.has(name) ? new Date(Number(value)) : value
  }
  const all = members.map((text) => JSON.parse(text, revived) as Member)
  return { length, limits: limitsFrom(limits), slots, members: all }
}
