/** How the members of etcd are, each by itself. */
import { findingsOf, type Finding } from '../finding.ts'
import { healthOf, type ServerAnswers, type ServiceHealth } from '../service-health.ts'
import type { EtcdGateway } from './gateway.ts'

interface Status {
  readonly version?: string
  readonly leader?: string
  readonly header?: { readonly member_id?: string }
  readonly errors?: readonly string[]
}

/** `read` asks for what needs a quorum. */
export function etcdHealth(
  gateway: EtcdGateway,
  read: () => Promise<void>,
): Promise<ServiceHealth> {
  const servers = gateway.endpoints.map((endpoint) => {
    const server = new URL(endpoint).host
    const ask = async (): Promise<ServerAnswers> => {
      const status = (await gateway.callAt(endpoint, '/v3/maintenance/status', {})) as Status
      const { version = '?', leader, header } = status
      const role = leader === header?.member_id ? 'leader' : 'follower'
      return { version, role, findings: checked(server, status) }
    }
    return [server, ask] as const
  })
  return healthOf('etcd', new Map(servers), read)
}

function checked(where: string, { version = '', leader, errors = [] }: Status): readonly Finding[] {
  return findingsOf(where, (report) => {
    const disarm = 'free space and disarm the alarm: etcdctl defrag, etcdctl alarm disarm'
    for (const fact of errors) report('error', 'alarm', fact, disarm)
    if (leader === undefined || leader === '0') {
      const fix = 'check that a majority of the members runs and that they reach each other'
      report('error', 'no-leader', 'sees no leader', fix)
    }
    if (!isFixed(version)) {
      const fact = `etcd ${version}: a leader that was frozen may revoke leases that were renewed`
      report('warning', 'old-version', fact, 'use 3.5.10 or newer (etcd issue 15247)')
    }
  })
}

function isFixed(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  if (major !== 3) return major > 3
  return minor > 5 || (minor === 5 && patch >= 10)
}
