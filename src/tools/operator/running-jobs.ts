/**
 * The job that runs under a lease, and since when. The masters know processes, not jobs: a job is
 * found as the active one in the line of its resource. With `order: 'relaxed'` there is no line,
 * and of a slot (`gpu#2`) it is not known.
 */
import type { LiveLease } from './live-leases.ts'
import type { QueueView } from './queue-view.ts'

export interface RunningJob {
  readonly queue: string
  readonly jobId: string
  /** Milliseconds since 1970 at which it was started. */
  readonly since: number
}

/** The most leases that are looked at. */
const MAX_LEASES = 200

export class JobsUnderLeases {
  readonly #queue: QueueView
  #known: ReadonlyMap<string, RunningJob> = new Map()

  constructor(queue: QueueView) {
    this.#queue = queue
  }

  /** By resource. What was found before is asked for again only after its job has ended. */
  async under(leases: readonly LiveLease[]): Promise<ReadonlyMap<string, RunningJob>> {
    const held = leases.filter(({ state }) => state === 'held').slice(0, MAX_LEASES)
    const found = await Promise.all(
      held.map(async (lease) => [lease.resource, await this.#jobUnder(lease)] as const),
    )
    const known = new Map<string, RunningJob>()
    for (const [resource, job] of found) if (job !== undefined) known.set(resource, job)
    this.#known = known
    return known
  }

  async #jobUnder({ resource }: LiveLease): Promise<RunningJob | undefined> {
    const before = this.#known.get(resource)
    if (before !== undefined && (await this.#isActive(before))) return before
    const line = await this.#queue.line(resource, () => Promise.resolve({ resource, masters: [] }))
    const active = line.find(({ state }) => state === 'active')
    if (active === undefined) return undefined
    const { queue, jobId } = active
    const { server, places } = this.#queue
    const { base } = await places.ofJob(queue, jobId)
    const startedAt = await server.command('HGET', base + jobId, 'processedOn')
    return startedAt === null ? undefined : { queue, jobId, since: Number(startedAt) }
  }

  async #isActive({ queue, jobId }: RunningJob): Promise<boolean> {
    const { server, places } = this.#queue
    const { base } = await places.ofJob(queue, jobId)
    return (await server.command('LPOS', `${base}active`, jobId)) !== null
  }
}
