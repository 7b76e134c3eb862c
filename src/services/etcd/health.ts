/** How the members of etcd are, each by itself. */
import type { Finding } from '../finding.ts'
import type { ServiceHealth } from '../service-health.ts'
import { healthOf, type ServerProbe } from '../service-health.ts'
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
  const servers = gateway.endpoints.map((endpoint): ServerProbe => {
    const server = new URL(endpoint).host
    const ask: ServerProbe['ask'] = async () => {
      const status = (await gateway.callAt(endpoint, '/v3/maintenance/status', {})) as Status
      const { version = '?', leader, header } = status
      const role = leader === header?.member_id ? 'leader' : 'follower'
      return { version, role, findings: findingsOf(server, status) }
    }
    return { server, ask }
  })
  return healthOf('etcd', servers, read)
}

function findingsOf(where: string, { version = '', leader, errors = [] }: Status): Finding[] {
  const found: Finding[] = errors.map((fact) => ({
    ...{ severity: 'error', code: 'alarm', where, fact },
    fix: 'free space and disarm the alarm: etcdctl defrag, etcdctl alarm disarm',
  }))
  if (leader === undefined || leader === '0') {
    const fix = 'check that a majority of the members runs and that they reach each other'
    found.push({ severity: 'error', code: 'no-leader', where, fact: 'sees no leader', fix })
  }
  if (!isFixed(version)) {
    const fact = `etcd ${version}: a leader that was frozen may revoke leases that were renewed`
    const fix = 'use 3.5.10 or newer (etcd issue 15247)'
    found.push({ severity: 'warning', code: 'old-version', where, fact, fix })
  }
  return found
}

function isFixed(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  if (major !== 3) return major > 3
  return minor > 5 || (minor === 5 && patch >= 10)
}
