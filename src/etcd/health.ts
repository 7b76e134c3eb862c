/** How the members of etcd are, each by itself. */
import type { Finding } from '../lock/finding.ts'
import type { ServerHealth, ServiceHealth } from '../lock/inspection.ts'
import { messageOf } from '../message-of.ts'
import type { EtcdGateway } from './gateway.ts'

interface Status {
  readonly version?: string
  readonly leader?: string
  readonly header?: { readonly member_id?: string }
  readonly errors?: readonly string[]
}

/** `read` asks for what needs a quorum. */
export async function etcdHealth(
  gateway: EtcdGateway,
  read: () => Promise<void>,
): Promise<ServiceHealth> {
  const findings: Finding[] = []
  const servers = await Promise.all(
    gateway.endpoints.map(async (endpoint): Promise<ServerHealth> => {
      const server = new URL(endpoint).host
      try {
        const status = (await gateway.callAt(endpoint, '/v3/maintenance/status', {})) as Status
        findings.push(...findingsOf(server, status))
        const { version = '?', leader, header } = status
        return { server, version, role: leader === header?.member_id ? 'leader' : 'follower' }
      } catch (error) {
        const problem = messageOf(error)
        const fix = 'start it again, and see that it is reached from here'
        const fact = `does not answer: ${problem}`
        findings.push({ severity: 'error', code: 'unreachable', where: server, fact, fix })
        return { server, problem }
      }
    }),
  )
  const found = { service: 'etcd', servers, findings }
  try {
    await read()
    return found
  } catch (error) {
    return { ...found, problem: messageOf(error) }
  }
}

function findingsOf(where: string, { version = '', leader, errors = [] }: Status): Finding[] {
  const found: Finding[] = errors.map((fact) => ({
    ...{ severity: 'error', code: 'alarm', where, fact },
    fix: 'free space and disarm the alarm: etcdctl defrag, etcdctl alarm disarm',
  }))
  if (leader === undefined || leader === '0') {
    const fix = 'see that a majority of the members runs and that they reach each other'
    found.push({ severity: 'error', code: 'no-leader', where, fact: 'sees no leader', fix })
  }
  if (!isFixed(version)) {
    const fact = `etcd ${version}: a leader that stood still may revoke leases that were renewed`
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
