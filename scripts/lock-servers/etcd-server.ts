/** etcd clusters of Debian. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findProgram } from '../find-program.ts'
import type { LockCluster, LockMember, Told } from './lock-cluster.ts'
import { dataDirectory, freePort, returnPort, ServiceProcess } from './service-process.ts'

export const noEtcd = findProgram('etcd') === undefined

export interface EtcdMember extends LockMember {
  readonly url: string
}

export interface EtcdCluster extends LockCluster {
  readonly members: readonly EtcdMember[]
  readonly urls: readonly string[]
  leader(): Promise<EtcdMember>
}

export interface EtcdOptions {
  readonly heartbeatMs?: number
  readonly electionMs?: number
  /** What each member is started with besides. */
  readonly more?: readonly string[]
  /** `https` where `more` says so. */
  readonly scheme?: 'http' | 'https'
  readonly told?: Told
  /** Whether a member answers. @defaultValue it answers a read that needs a quorum */
  readonly isReady?: (url: string) => Promise<boolean>
}

/** Elections of 200 ms, so that leases of one second are granted. */
const FAST = { heartbeatMs: 20, electionMs: 200 }
/** What etcd has by default. */
export const DEFAULT_TIMING = { heartbeatMs: 100, electionMs: 1_000 }

export async function startEtcd(size: number, options: EtcdOptions = {}): Promise<EtcdCluster> {
  const { heartbeatMs, electionMs, more = [], scheme = 'http' } = { ...FAST, ...options }
  const { told = (port) => Promise.resolve(port), isReady = answers } = options
  const data = dataDirectory()
  const ports = await Promise.all(Array.from({ length: 2 * size }, () => freePort()))
  const names = Array.from({ length: size }, (_, index) => `m${index + 1}`)
  const peers = await Promise.all(
    names.map(async (_, index) => `http://127.0.0.1:${await told(ports[size + index] ?? 0)}`),
  )
  const cluster = names.map((name, index) => `${name}=${peers[index] ?? ''}`).join(',')
  const members = await Promise.all(
    names.map(async (name, index): Promise<EtcdMember> => {
      const port = ports[index] ?? 0
      const url = `${scheme}://127.0.0.1:${port}`
      const peer = peers[index] ?? ''
      const peerPort = ports[size + index] ?? 0
      const service = await ServiceProcess.start({
        name,
        command: [
          ...['etcd', '--name', name, '--data-dir', join(data.path, name)],
          ...['--listen-client-urls', url, '--advertise-client-urls', url],
          ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
          ...['--initial-advertise-peer-urls', peer],
          ...['--initial-cluster', cluster, '--log-level', 'error', '--unsafe-no-fsync'],
          ...['--heartbeat-interval', String(heartbeatMs)],
          ...['--election-timeout', String(electionMs), ...more],
        ],
        isReady: () => isReady(url),
      })
      return { name, port, peerPorts: [peerPort], url, process: service }
    }),
  )
  const urls = members.map(({ url }) => url)
  const close = async (): Promise<void> => {
    await Promise.all(members.map((member) => member.process.close()))
    for (const port of ports) returnPort(port)
    await data.remove()
  }
  const toldPorts = await Promise.all(members.map(({ port }) => told(port)))
  return {
    members,
    urls,
    address: `etcd:${toldPorts.map((port) => `${scheme}://127.0.0.1:${port}`).join()}`,
    async leader() {
      for (;;) {
        for (const member of members) if (await leads(member.url)) return member
        await delay(20)
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function answers(url: string): Promise<boolean> {
  const response = await post(url, '/v3/kv/range', { key: 'AA==' })
  return response.ok || (await response.text()).includes('user name is empty')
}

/** Whether a member says that it leads. */
async function leads(url: string): Promise<boolean> {
  try {
    const status = (await (await post(url, '/v3/maintenance/status', {})).json()) as {
      leader?: string
      header: { member_id: string }
    }
    return status.leader === status.header.member_id
  } catch {
    return false // It is down or stopped.
  }
}

export function post(url: string, path: string, body: object): Promise<Response> {
  return fetch(url + path, {
    method: 'POST',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(2_000),
  })
}
