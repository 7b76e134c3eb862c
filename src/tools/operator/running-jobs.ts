/**
 * The job that runs under a lease, and since when. The masters know processes, not jobs: a job is
 * found as the active one in the line of its resource. With `order: 'relaxed'` there is no line,
 * and of a slot (`gpu#2`) it is not known.
 */
import type { Inspection } from '../../lock/inspection.ts'
import type { JobSince } from './jobs.ts'
import { lineOf } from './lines.ts'
import type { LiveLease } from './live-leases.ts'
import type { Places } from './places.ts'
import { known } from './queue-server.ts'

/** The job under each lease, by resource, and when it was started. */
export type JobsByResource = ReadonlyMap<string, JobSince>

/** The most leases that are looked at. */
const MAX_LEASES = 200

/** @param earlier found before: asked for again only after its job has ended. */
export async function jobsUnder(
  places: Places,
  leases: readonly LiveLease[],
  earlier: JobsByResource = new Map(),
): Promise<JobsByResource> {
  const held = leases.filter(({ state }) => state === 'held').slice(0, MAX_LEASES)
  const found = await known(
    held.map(async ({ resource }) => {
      const before = earlier.get(resource)
      const isSame = before !== undefined && (await isActive(places, before))
      const job = isSame ? before : await jobOf(places, resource)
      return job === undefined ? [] : [[resource, job] as const]
    }),
  )
  return new Map(found.flat())
}

async function jobOf(places: Places, resource: string): Promise<JobSince | undefined> {
  const inspect = (): Promise<Inspection> => Promise.resolve({ resource, masters: [] })
  const { entries } = await lineOf(places, resource, inspect)
  const active = entries.find(({ state }) => state === 'active')
  if (active === undefined) return undefined
  const { queue, jobId, activeSince } = active
  return activeSince && { queue, jobId, since: activeSince.getTime() }
}

async function isActive(places: Places, { queue, jobId }: JobSince): Promise<boolean> {
  const { base } = await places.ofJob(queue, jobId)
  return (await places.server.command('LPOS', `${base}active`, jobId)) !== null
}
