/** Three Sentinels that watch one master, each a process of its own. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { findServerBinary } from '../../src/testing/choose-backend.ts'
import { returnPort, takePort } from '../../src/testing/free-port.ts'
import { LAUNCH, takeDirectory } from '../../src/testing/reaper.ts'
import { until } from '../fixtures.ts'

const HOST = '127.0.0.1'
/** A master that is silent for this long is replaced. */
const DOWN_AFTER_MS = 600

interface Address {
  readonly host: string
  readonly port: number
}

export interface Sentinels {
  /** As ioredis takes them. */
  readonly connection: { readonly sentinels: readonly Address[]; readonly name: string }
  /** The port of the master that they name now. */
  masterPort(): Promise<number>
  /** Replaces a master that is well. */
  failover(): Promise<void>
  close(): Promise<void>
}

/** Resolves when all three know each other and the master's replica. */
export async function startSentinels(name: string, master: Address): Promise<Sentinels> {
  const started = await Promise.all([1, 2, 3].map((nr) => startSentinel(nr, name, master)))
  const clients = started.map(({ port }) => new Redis({ host: HOST, port }))
  for (const client of clients) client.on('error', () => undefined) // It still starts.
  const [first] = clients as [Redis, ...Redis[]]
  const close = async (): Promise<void> => {
    for (const client of clients) client.disconnect()
    await Promise.all(started.map((sentinel) => sentinel.close()))
  }
  try {
    await until('the Sentinels know all', async () => {
      const told = await Promise.all(clients.map((client) => client.call('INFO', 'sentinel')))
      return told.every((text) => /status=ok,.*slaves=1,sentinels=3/.test(String(text)))
    })
  } catch (error) {
    await close()
    throw error
  }
  return {
    connection: { sentinels: started.map(({ port }) => ({ host: HOST, port })), name },
    masterPort: async () => {
      const found = await first.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)
      return Number((found as string[])[1])
    },
    failover: async () => {
      await first.call('SENTINEL', 'FAILOVER', name)
    },
    close,
  }
}

async function startSentinel(
  nr: number,
  name: string,
  { host, port: masterPort }: Address,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const search = await findServerBinary()
  if (search.status === 'missing') throw new Error('no redis-server is installed')
  const [port, directory] = [await takePort(HOST), takeDirectory(`sentinel-${nr}`)]
  const { path } = directory
  const file = join(path, 'sentinel.conf')
  const lines = [
    ...[`port ${port}`, `bind ${HOST}`, `dir "${path}"`, 'protected-mode no'],
    `sentinel monitor ${name} ${host} ${masterPort} 2`,
    `sentinel down-after-milliseconds ${name} ${DOWN_AFTER_MS}`,
    // A replica that copies through a proxy is not sent to the master itself before that.
    `sentinel failover-timeout ${name} 60000`,
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  const child = spawn('/bin/sh', ['-c', LAUNCH, path, search.binary.path, file, '--sentinel'], {
    cwd: path,
    env: { PATH: process.env['PATH'], LC_ALL: 'C' },
    detached: true,
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  return {
    port,
    close: async () => {
      child.kill('SIGKILL')
      await ended
      returnPort(port)
      await directory.release()
    },
  }
}
