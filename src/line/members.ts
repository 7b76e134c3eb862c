/** The jobs that have places in the line of a resource. */
import { limitsFrom, type ResourceLimits } from './limits.ts'
import type { LineRunner } from './line-runner.ts'

/** Jobs of a line that are looked at. */
const MAX_MEMBERS = 100
const DATES = new Set(['activeSince', 'delayedUntil', 'heldUntil'])

/** One job in a line. */
export interface LineEntry {
  /** The name of the queue that has the job. */
  readonly queue: string
  /** BullMQ's id of the job. */
  readonly jobId: string
  /** BullMQ's state: `active`, `delayed`, `waiting`, … */
  readonly state: string
  /** When the job was added. */
  readonly addedAt: Date
  /** In words, what has to happen before the job starts. */
  readonly waitsFor: string
  /** Of a job that was added with a tenant or a weight. */
  readonly share?: { readonly tenant: string; readonly weight: number }
  /** Of a job that failed and holds the line: the beginning of what it threw. */
  readonly failedReason?: string
  /** When a worker was given it; of a job that runs. */
  readonly activeSince?: Date
  /** Of a job that runs: its worker has not renewed its lock, because it is stopped or dead. */
  readonly lockLapsed?: true
  /** When its delay or backoff ends; of a job that has one. */
  readonly delayedUntil?: Date
  /** When the rate or the pause of its resource lets it start; of the first job of its line. */
  readonly heldUntil?: Date
}

/** A job that has a place in a line, as `lua/places.lua` has it. */
export interface Member extends Omit<LineEntry, 'queue' | 'addedAt' | 'waitsFor'> {
  readonly addedAtMs: number
  /** Jobs that are ahead of it, running ones included. */
  readonly ahead: number
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
  const reply = await runner.run('line/lua/places', { most: limit, resource, ...(id && { id }) })
  const [length, limits, slots, ...members] = reply as readonly [
    number,
    string,
    number,
    ...string[],
  ]
  const revived = (name: string, value: unknown): unknown => {
    if (name === 'addedAtMs') return Number(value)
    return DATES.has(name) ? new Date(Number(value)) : value
  }
  const all = members.map((text) => JSON.parse(text, revived) as Member)
  return { length, limits: limitsFrom(limits), slots, members: all }
}
