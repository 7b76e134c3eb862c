/** What can be wrong with the queue's Redis. Pure. */
import type { ServerSurvey } from './server-survey.ts'
import type { ServerAnswer } from './fleet-probe.ts'
import { findingsOf, type Finding, type Report } from '../../services/finding.ts'
import { checkMemory, unreachable } from './master-checks.ts'
import type { MasterSurvey } from './survey.ts'

/** BullMQ refuses servers below the first and recommends the second. */
const MIN_VERSION = 5
const RECOMMENDED_VERSION = 6.2

export function checkQueue(
  queue: ServerAnswer<ServerSurvey>,
  masters: readonly ServerAnswer<MasterSurvey>[],
): readonly Finding[] {
  const where = `queue ${queue.master}`
  if (!queue.ok) return [unreachable(queue.problem, where)]
  return findingsOf(where, (report) => {
    checkServer(queue.value, report)
    const master = masters.find((one) => one.ok && one.value.runId === queue.value.runId)
    if (master === undefined) return
    const fact = `is also the lock master ${master.master}`
    report('warning', 'same-server', fact, 'give the queue another server')
  })
}

function checkServer(server: ServerSurvey, report: Report): void {
  const version = Number.parseFloat(server.version)
  if (version < RECOMMENDED_VERSION) {
    const severity = version < MIN_VERSION ? 'error' : 'warning'
    const fix = 'upgrade it: BullMQ needs 6.2 or newer'
    report(severity, 'old-version', `runs version ${server.version}`, fix)
  }
  if (server.role !== 'master') {
    report('error', 'replica', 'is a replica', 'give the address of its master: BullMQ writes')
  }
  checkMemory(server, 'jobs and lines', report)
  const { usedBytes, maxBytes } = server
  if (maxBytes > 0 && usedBytes >= maxBytes) {
    const fact = 'is full and refuses writes: jobs are neither added nor started'
    report('error', 'full', fact, 'raise its maxmemory, or remove finished jobs')
  }
  if (server.persistence === 'none') {
    const fact = 'writes nothing to disk: a restart loses every job'
    report('warning', 'persistence', fact, '`appendonly yes` in its redis.conf')
  }
}
