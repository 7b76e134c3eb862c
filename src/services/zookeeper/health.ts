/** How the servers of ZooKeeper are: each is asked `srvr`, the word that is allowed by default. */
import { connect } from 'node:net'
import { healthOf, type ServerAnswers, type ServiceHealth } from '../service-health.ts'

const ASK_MS = 1_000
const DEFAULT_PORT = 2_181

/** `session` resolves when a session is connected. */
export function zooKeeperHealth(
  servers: string,
  session: () => Promise<void>,
): Promise<ServiceHealth> {
  const addresses = servers.replace(/\/.*$/, '').split(',')
  const asks = new Map(addresses.map((server) => [server, () => roleOf(server)]))
  return healthOf('ZooKeeper', asks, session)
}

async function roleOf(server: string): Promise<ServerAnswers> {
  const said = await ask(server)
  const version = /version: ([^-,\s]+)/.exec(said)?.[1] ?? '?'
  const role = /Mode: (\w+)/.exec(said)?.[1]
  if (role !== undefined) return { version, role }
  throw new Error(said.trim().slice(0, 200) || 'no answer to `srvr`')
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
