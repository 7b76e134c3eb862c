import { Processor, WorkerHost } from '@nestjs/bullmq'
import type { Job } from 'bullmq'
import { lockedWorker } from './locked-bull.js'
import { redlock } from './redlock.js'

export interface Report {
  readonly month: string
}

const resource = ({ data }: Job<Report>): string => `report:${data.month}`

/** However often a report is asked for, it is made once in a minute; the others get its result. */
@Processor('reports', lockedWorker({ redlock, resource, dedupe: { resultTtlMs: 60_000 } }))
export class ReportProcessor extends WorkerHost {
  async process({ data: { month } }: Job<Report>): Promise<string> {
    process.stdout.write(`makes report ${month}\n`)
    return `report of ${month}`
  }
}
