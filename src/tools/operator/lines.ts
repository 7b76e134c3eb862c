/** The lines of all queues, as an operator looks at them. */
import { getOrInsert } from '../../get-or-insert.ts'
import { messageOf } from '../../message-of.ts'
import { keyIn } from '../../line/line-runner.ts'
import { membersOf, type LineEntry } from '../../line/members.ts'
import type { ResourceLimits } from '../../line/limits.ts'
import type { Inspection } from '../../lock/inspection.ts'
import { inspectResource, type ResourceInspection } from '../../worker/inspection.ts'
import type { Standstill } from '../../worker/standstill.ts'
import { globEscape } from './glob.ts'
import type { Places, QueuePlace } from './places.ts'
import { known } from './queue-server.ts'

export type Inspect = (resource: string) => Promise<Inspection>

export interface WaitingLines {
  /** The longest first. */
  readonly lines: readonly WaitingLine[]
  /** All that there are, also those that were not looked at. */
  readonly total: number
  /** There are more than were looked at, so a longer or a matching line may be missing. */
  readonly truncated: boolean
}

export interface ResourceInQueue {
  readonly queue: string
  /** Jobs in it, also the one whose turn it is. */
  readonly jobs: number
  readonly limits: ResourceLimits
}

interface WaitingLine extends ResourceInQueue {
  readonly resource: string
  /** Its head: the first few. */
  readonly first: readonly LineEntry[]
}

export interface LineSearch {
  /** Part of the name of a resource, or of the tenant of its first job. */
  readonly text: string
  readonly limit: number
  readonly heads: number
}

/** The most jobs of a line that are shown. */
const MAX_HEADS = 100
/** The most lines of a queue that are looked at to find the longest. */
const MAX_LINES = 500
/** The most lines of a queue among whose names a search looks. */
const MAX_NAMES = 100_000
const NAMES_AT_ONCE = 1_000

/**
 * The jobs in the lines of a resource, queue by queue, and what each waits for.
 * @returns why there may be more as `missing`.
 */
export async function lineOf(
  places: Places,
  resource: string,
  inspect: Inspect,
): Promise<{ readonly entries: readonly LineEntry[]; readonly missing: string | undefined }> {
  const names = await places.names()
  let missing = places.missingNames
  const asked = names.map(async (queue) => {
    try {
      const place = await places.ofResource(queue, resource)
      const standstill = (): Promise<Standstill | undefined> => places.standstill(place)
      const sources = { locks: { inspect }, lines: place, standstill }
      return await inspectResource(resource, sources, MAX_HEADS)
    } catch (error) {
      missing ??= messageOf(error)
      throw error
    }
  })
  const found = await known(asked)
  return { entries: found.flatMap(({ line }) => line), missing }
}

/** How long the line of a resource is in each queue, and its limits there. */
export async function lengthsOf(
  places: Places,
  resource: string,
): Promise<readonly ResourceInQueue[]> {
  return places.each(async (queue) => {
    const place = await places.ofResource(queue, resource)
    const { length, limits } = await membersOf(resource, place, 0)
    return { queue, jobs: length, limits }
  })
}

/** Where jobs wait, and what for. A line is found here when a job sleeps in it. */
export async function waitingLines(
  places: Places,
  { text, limit, heads }: LineSearch,
  inspect: Inspect,
): Promise<WaitingLines> {
  const ofQueues = await places.eachPlace((place) => sleepingLines(places, place, text))
  // Only a search needs the tenant.
  const first = text === '' ? 0 : 1
  const lengths = await known(
    ofQueues.flatMap(({ place, resources }) =>
      resources.map(async (resource) => {
        const { length: jobs, members } = await membersOf(resource, place, first)
        const { tenant = '' } = members[0]?.share ?? {}
        const isMeant = resource.includes(text) || tenant.includes(text)
        return { place, resource, jobs: isMeant ? jobs : 0 }
      }),
    ),
  )
  const longest = lengths
    .filter(({ jobs }) => jobs > 0)
    .sort((a, b) => b.jobs - a.jobs || (a.resource < b.resource ? -1 : 1))
  const standstills = new Map<QueuePlace, Promise<Standstill | undefined>>()
  const lookedAt = (place: QueuePlace, resource: string): Promise<ResourceInspection> => {
    const standstill = (): Promise<Standstill | undefined> =>
      getOrInsert(standstills, place, () => places.standstill(place))
    return inspectResource(resource, { locks: { inspect }, lines: place, standstill }, heads)
  }
  return {
    lines: await Promise.all(
      longest.slice(0, limit).map(async ({ place, resource, jobs }) => {
        const { line, limits } = await lookedAt(place, resource)
        return { queue: place.name, resource, jobs, first: line, limits }
      }),
    ),
    total: ofQueues.reduce((all, { total }) => all + total, 0),
    truncated: ofQueues.some(({ total, resources }) => total > resources.length),
  }
}

/** Lines that are looked at: those whose last look is oldest, and those that the text names. */
async function sleepingLines({ server }: Places, place: QueuePlace, text: string) {
  const index = keyIn(place.base, 'sleeping-lines')
  const [total, oldest] = (await Promise.all([
    server.command('ZCARD', index),
    server.command('ZRANGE', index, 0, MAX_LINES - 1),
  ])) as [number, string[]]
  if (text === '') return { place, total, resources: oldest }
  const named = new Set([text])
  const match = ['MATCH', `*${globEscape(text)}*`, 'COUNT', NAMES_AT_ONCE] as const
  let cursor = '0'
  for (let looked = 0; looked < MAX_NAMES && named.size < MAX_LINES; looked += NAMES_AT_ONCE) {
    const page = await server.command('ZSCAN', index, cursor, ...match)
    const [next, found] = page as [string, string[]]
    for (let nr = 0; nr < found.length; nr += 2) named.add(found[nr] ?? '')
    cursor = next
    if (next === '0') break
  }
  return { place, total, resources: [...new Set([...named, ...oldest])] }
}
