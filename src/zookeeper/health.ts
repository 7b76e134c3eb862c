/** How the servers of ZooKeeper are: each is asked `srvr`, the word that is allowed by default. */
import { connect } from 'node:net'
import type { Finding } from '../lock/finding.ts'
import type { ServerHealth, ServiceHealth } from '../lock/inspection.ts'
import { messageOf } from '../message-of.ts'

const ASK_MS = 1_000
const DEFAULT_PORT = 2_181

/** `session` resolves when a session is connected. */
export async function zooKeeperHealth(
  servers: string,
  session: () => Promise<void>,
): Promise<ServiceHealth> {
  const findings: Finding[] = []
  const addresses = servers.replace(/\/.*$/, '').split(',')
  const seen = await Promise.all(
    addresses.map(async (server): Promise<ServerHealth> => {
      try {
        const said = await ask(server)
        const version = /version: ([^-,\s]+)/.exec(said)?.[1] ?? '?'
        const role = /Mode: (\w+)/.exec(said)?.[1]
        if (role !== undefined) return { server, version, role }
        throw new Error(said.trim().slice(0, 200) || 'no answer to `srvr`')
      } catch (error) {
        const problem = messageOf(error)
        const fix = 'start it again, and see that it reaches the other servers'
        const fact = `does not serve: ${problem}`
        findings.push({ severity: 'error', code: 'unreachable', where: server, fact, fix })
        return { server, problem }
      }
    }),
  )
  const found = { service: 'ZooKeeper', servers: seen, findings }
  try {
    await session()
    return found
  } catch (error) {
    return { ...found, problem: messageOf(error) }
  }
}

function ask(server: string): Promise<string> {
  const { hostname, port } = new URL(`tcp://${server}`)
  return new Promise((resolve, reject) => {
    let said = ''
    const socket = connect(Number(port) || DEFAULT_PORT, hostname, () => socket.write('srvr'))
    socket.setTimeout(ASK_MS, () => socket.destroy(new Error(`no answer within ${ASK_MS} ms`)))
    socket.on('data', (part) => (said += part.toString()))
    socket.on('error', reject)
    socket.on('close', () => {
      resolve(said)
    })
  })
}
