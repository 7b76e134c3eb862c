/**
 * The jobs of a batch behind its first one: how they come from the line to this worker, run as any
 * job, and wait for what becomes of them.
 */
import type { Job } from 'bullmq'
import type { Lease } from '../../lock/lease.ts'
import type { LineBackend, TakenJob } from '../../line/line-backend.ts'
import type { BatchMembers } from './batch.ts'
import type { Insist } from './checkpoints.ts'
import type { Running } from './running-jobs.ts'

/** BullMQ opens jobs that were taken for a batch. */
export type OpenTaken<Data, Result, Name extends string> = (
  found: readonly TakenJob[],
  token: string,
) => Promise<readonly OpenedJob<Data, Result, Name>[]>

/** A job that was taken for a batch. */
export interface OpenedJob<Data, Result, Name extends string> {
  readonly job: Job<Data, Result, Name>
  /** BullMQ starts it as any job. Resolves when it has ended, well or not. */
  readonly run: () => Promise<void>
}

/** How a job of a batch runs that is not its first. */
export interface Membership<Result> {
  readonly outcome: Promise<PromiseSettledResult<Result>>
  readonly lease: Lease
  readonly lines: string
  readonly first: Running
  /** To be called when its last trip is under way. */
  readonly sent: () => void
}

export class Batches<Data, Result, Name extends string> {
  readonly #lines: LineBackend
  readonly #openTaken: OpenTaken<Data, Result, Name>
  readonly #members = new Map<string, Membership<Result>>()

  constructor(lines: LineBackend, openTaken: OpenTaken<Data, Result, Name>) {
    this.#lines = lines
    this.#openTaken = openTaken
  }

  /** How a job runs that was taken for a batch; undefined for any other. Known once. */
  claim(jobId: string): Membership<Result> | undefined {
    const membership = this.#members.get(jobId)
    this.#members.delete(jobId)
    return membership
  }

  /** How the batch of a job gets its other jobs; undefined for a job of several resources. */
  membersOf(
    first: Running<Data, Result, Name>,
    resources: readonly string[],
    lease: Lease,
    insist: Insist,
  ): BatchMembers<Data, Result, Name> | undefined {
    const { job } = first
    const [resource = '', ...more] = resources
    if (more.length > 0) return undefined
    const taking = { resource, token: job.token ?? '0' }
    /** Of those that have not ended. */
    const settling = new Map<string, (outcome: PromiseSettledResult<Result>) => void>()
    const sending: Promise<void>[] = []
    first.batch = first.signal
    let before = 0
    return {
      take: async (most) => {
        if (most <= 0) return []
        const found = await insist(async () =>
          this.#openTaken(await this.#lines.take(job, { ...taking, most, before }), taking.token),
        )
        before += found.length
        return found.map(({ job: member, run }) => {
          const id = member.id ?? ''
          const outcome = new Promise<PromiseSettledResult<Result>>((resolve) => {
            settling.set(id, resolve)
          })
          const ended = new Promise<void>((sent) => {
            this.#members.set(id, { outcome, lease, lines: JSON.stringify(resources), first, sent })
            void run().finally(() => {
              settling.delete(id)
              this.#members.delete(id) // BullMQ may have failed it without running it.
              sent()
            })
          })
          sending.push(ended)
          return member
        })
      },
      settle: async (outcomes) => {
        for (const [id, outcome] of outcomes) settling.get(id)?.(outcome)
        await Promise.all(sending)
      },
    }
  }
}
