/** ZooKeeper ensembles of Debian. */
import { mkdirSync, existsSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findProgram } from '../find-program.ts'
import type { LockCluster, LockMember, Told } from './lock-cluster.ts'
import { dataDirectory, freePort, returnPort, ServiceProcess } from './service-process.ts'

const JAR = '/usr/share/java/zookeeper.jar'

export const noZooKeeper = findProgram('java') === undefined || !existsSync(JAR)

/** A tick of 400 ms, so that sessions of 800 ms are granted. */
export const TICK_MS = 400
/** Members without a leader ask each other that often. ZooKeeper itself waits up to a minute. */
const ASKS_EVERY_MS = 400

export interface ZooKeeperEnsemble extends LockCluster {
  /** As clients take it. */
  readonly servers: string
}

export async function startZooKeeper(
  size: number,
  told: Told = (port) => Promise.resolve(port),
): Promise<ZooKeeperEnsemble> {
  const data = dataDirectory()
  const ports = await Promise.all(Array.from({ length: 3 * size }, () => freePort()))
  const toldPorts = await Promise.all(ports.map(told))
  const ids = Array.from({ length: size }, (_, index) => index)
  const peersOf = (id: number, from: readonly number[]): readonly number[] =>
    [from[size + id], from[2 * size + id]].map((port) => port ?? 0)
  const members = await Promise.all(
    ids.map(async (id): Promise<LockMember> => {
      const port = ports[id] ?? 0
      // A server listens where its own file says so, and the others reach it where theirs do.
      const peers = ids.map((one) => {
        const [quorum, election] = peersOf(one, one === id ? ports : toldPorts)
        return `server.${one + 1}=127.0.0.1:${quorum}:${election}`
      })
      const directory = join(data.path, String(id + 1))
      mkdirSync(directory)
      writeFileSync(join(directory, 'myid'), String(id + 1))
      const file = join(directory, 'zoo.cfg')
      const lines = [
        ...[`tickTime=${TICK_MS}`, 'initLimit=20', 'syncLimit=5', `dataDir=${directory}`],
        ...[`clientPort=${port}`, 'clientPortAddress=127.0.0.1', 'admin.enableServer=false'],
        ...['4lw.commands.whitelist=*', 'maxClientCnxns=0'],
        ...(size > 1 ? peers : []),
      ]
      writeFileSync(file, `${lines.join('\n')}\n`)
      const name = `zookeeper-${id + 1}`
      const service = await ServiceProcess.start({
        name,
        command: [
          ...['java', '-Xmx96m', '-XX:TieredStopAtLevel=1', '-Dzookeeper.forceSync=no'],
          `-Dzookeeper.fastleader.maxNotificationInterval=${ASKS_EVERY_MS}`,
          ...['-cp', JAR, 'org.apache.zookeeper.server.quorum.QuorumPeerMain', file],
        ],
        isReady: async () => /Mode: (leader|follower|standalone)/.test(await ask(port, 'srvr')),
      })
      return { name, port, peerPorts: peersOf(id, ports), process: service }
    }),
  )
  const servers = ids.map((id) => `127.0.0.1:${toldPorts[id] ?? 0}`).join()
  const close = async (): Promise<void> => {
    await Promise.all(members.map((member) => member.process.close()))
    for (const port of ports) returnPort(port)
    await data.remove()
  }
  return {
    members,
    servers,
    address: `zookeeper:${servers}`,
    async leader() {
      for (;;) {
        for (const member of members) {
          const said = await ask(member.port, 'srvr').catch(() => '')
          if (/Mode: (leader|standalone)/.test(said)) return member
        }
        await delay(20)
      }
    },
    async sessions() {
      const said = await Promise.all(members.map(({ port }) => ask(port, 'dump').catch(String)))
      // The leader alone counts their time.
      const [live = ''] = /Session Sets[^]*?ephemeral nodes/.exec(said.join('\n')) ?? []
      const kept = members.flatMap(({ name }, index) =>
        [...(said[index] ?? '').matchAll(/^(0x\w+):$/gm)]
          .filter(([, id = '']) => live !== '' && !live.includes(id))
          .map(([, id]) => `${name} keeps nodes of session ${id}, which has ended`),
      )
      return [...members.map(({ name }, index) => `${name}: ${said[index]}`), ...kept]
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** What a server says to a word of four letters. */
function ask(port: number, word: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(word))
    socket.setTimeout(1_000, () => socket.destroy(new Error('no answer')))
    socket.on('data', (part) => (said += part.toString()))
    socket.on('error', reject)
    socket.on('close', () => {
      resolve(said)
    })
  })
}
