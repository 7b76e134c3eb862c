import { connect } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import type { ServerAnswers } from '../service-health.ts'

const ASK_MS = 1_000
const DEFAULT_PORT = 2_181

/** A server is asked `srvr`, the word that is allowed by default. */
export async function healthOfServer(server: string): Promise<ServerAnswers> {
  const { hostname, port } = new URL(`tcp://${server}`)
  const socket = connect(Number(port) || DEFAULT_PORT, hostname, () => socket.write('srvr'))
  socket.setTimeout(ASK_MS, () => socket.destroy(new Error(`no answer within ${ASK_MS} ms`)))
  const said = await textOf(socket)
  const version = /version: ([^-,\s]+)/.exec(said)?.[1] ?? '?'
  const role = /Mode: (\w+)/.exec(said)?.[1]
  if (role !== undefined) return { version, role }
  throw new Error(said.trim().slice(0, 200) || 'no answer to `srvr`')
}
