/** In Bull Board itself: the log of a job ends with what the job waits for at this moment. */
import type { DashboardHandler } from './handler.ts'

/** As much of Bull Board's queue adapters as is used; they need not be installed. */
export interface LogAdapter {
  /** The name of the queue. */
  getName(): string
  /** The log of a job, line by line. */
  getJobLogs(jobId: string): Promise<string[]>
}

/**
 * Shows in Bull Board why a job waits: the log of the job ends with it. Changes the adapter and
 * returns it. Nothing is written: the reason is found out when the log is opened.
 * @example
 * ```ts
 * const dashboard = dashboardHandler({ masters, queueRedis: 'redis://queue:6379' })
 * const queues = [showReasons(new BullMQAdapter(queue), dashboard)]
 * createBullBoard({ queues, serverAdapter: new ExpressAdapter() })
 * ```
 */
export function showReasons<Adapter extends LogAdapter>(
  adapter: Adapter,
  dashboard: Pick<DashboardHandler, 'why'>,
): Adapter {
  const logs = adapter.getJobLogs.bind(adapter)
  adapter.getJobLogs = async (jobId) => {
    const [written, reason] = await Promise.all([
      logs(jobId),
      // The log itself must be seen also when the masters or the queue's Redis are away.
      dashboard.why(adapter.getName(), jobId).catch((error: unknown) => String(error)),
    ])
    return reason === undefined ? written : [...written, `now: ${reason}`]
  }
  return adapter
}
