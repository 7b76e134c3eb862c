import type { Job } from 'bullmq'

/** A job's place in its resource's line: which job of which queue, as one string that sorts nowhere. */
export interface Ticket {
  readonly prefix: string
  readonly queue: string
  readonly jobId: string
}

export function encodeTicket({ prefix, queue, jobId }: Ticket): string {
  return JSON.stringify([prefix, queue, jobId])
}

/** Undefined for anything that this version did not write. */
export function decodeTicket(text: string): Ticket | undefined {
  try {
    const parts: unknown = JSON.parse(text)
    if (!Array.isArray(parts) || parts.length !== 3) return undefined
    const [prefix, queue, jobId] = parts as unknown[]
    if (typeof prefix !== 'string' || typeof queue !== 'string' || typeof jobId !== 'string') {
      return undefined
    }
    return { prefix, queue, jobId }
  } catch {
    return undefined // Not JSON: not ours.
  }
}

export function ticketOf(job: Pick<Job, 'id' | 'prefix' | 'queueName'>): Ticket {
  return { prefix: job.prefix, queue: job.queueName, jobId: job.id ?? '' }
}
