/** In Bull Board itself: the log of a job ends with what the job waits for at this moment. */
import type { DashboardHandler } from './handler.ts'

/** As much of Bull Board's queue adapters as is used; they need not be installed. */
export interface LogAdapter {
  getName(): string
  getJobLogs(jobId: string): Promise<string[]>
}

/**
 * Changes the adapter and returns it. Nothing is written: the reason is found out when the log is
 * opened.
 * @example createBullBoard({ queues: [showReasons(new BullMQAdapter(queue), dashboard)],
 * serverAdapter })
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
