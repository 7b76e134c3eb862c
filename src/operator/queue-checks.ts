/** What can be wrong with the queue's Redis. Pure. */
import type { ServerSurvey } from '../redis/server-survey.ts'
import type { Answer } from './fleet-probe.ts'
import type { Finding } from '../lock/finding.ts'
import { unreachable } from './master-checks.ts'
import type { MasterSurvey } from './survey.ts'

/** BullMQ refuses servers below the first and recommends the second. */
const MIN_VERSION = 5
const RECOMMENDED_VERSION = 6.2

export function checkQueue(
  queue: Answer<ServerSurvey>,
  masters: readonly Answer<MasterSurvey>[],
): readonly Finding[] {
  const where = `queue ${queue.master}`
  if (!queue.ok) return [unreachable(queue.problem, where)]
  const { value: server } = queue
  const found: Finding[] = []
  const add = (severity: Finding['severity'], code: string, fact: string, fix: string): void => {
    found.push({ severity, code, where, fact, fix })
  }
  const version = Number.parseFloat(server.version)
  if (version < RECOMMENDED_VERSION) {
    const severity = version < MIN_VERSION ? 'error' : 'warning'
    add(
      severity,
      'old-version',
      `runs version ${server.version}`,
      'upgrade it: BullMQ needs 6.2 or newer',
    )
  }
  if (server.role !== 'master') {
    add('error', 'replica', 'is a replica', 'give the address of its master: BullMQ writes')
  }
  if (server.maxmemoryPolicy !== 'noeviction') {
    const fact = `may evict jobs and lines: maxmemory-policy is ${server.maxmemoryPolicy}`
    add('error', 'evicts', fact, '`CONFIG SET maxmemory-policy noeviction`, and in its redis.conf')
  }
  if (server.writesRefused !== undefined) {
    const fact = `may refuse writes: ${server.writesRefused}`
    add('error', 'refuses-writes', fact, 'read its log and free disk space')
  }
  const { usedBytes, maxBytes } = server
  if (maxBytes > 0 && usedBytes >= maxBytes) {
    const fact = 'is full and refuses writes: jobs are neither added nor started'
    add('error', 'full', fact, 'raise its maxmemory, or remove finished jobs')
  }
  if (server.persistence === 'none') {
    const fact = 'writes nothing to disk: a restart loses every job'
    add('warning', 'persistence', fact, '`appendonly yes` in its redis.conf')
  }
  const master = masters.find((one) => one.ok && one.value.runId === server.runId)
  if (master !== undefined) {
    const fact = `is also the lock master ${master.master}`
    add('warning', 'same-server', fact, 'give the queue another server')
  }
  return found
}
