/** A MariaDB of Debian, which speaks MySQL's SQL. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../../scripts/find-program.ts'
import {
  dataDirectory,
  freePort,
  returnPort,
  ServiceProcess,
} from '../../scripts/lock-servers/service-process.ts'

const USER = 'mysql'

export const noMariaDb = ['mariadbd', 'mariadb', 'mariadb-install-db'].some(
  (program) => findProgram(program) === undefined,
)

export interface MariaDbServer {
  /** The command of a client session. */
  readonly client: readonly string[]
  readonly close: () => Promise<void>
}

export async function startMariaDb(): Promise<MariaDbServer> {
  const data = dataDirectory(USER)
  const port = await freePort()
  const options = [`--datadir=${data.path}`, '--auth-root-authentication-method=normal']
  const install = ['mariadb-install-db', '--no-defaults', ...options]
  await ServiceProcess.run({ name: 'mariadb-install-db', user: USER, command: install })
  const client = ['mariadb', '--no-defaults', '-h127.0.0.1', `-P${port}`, '-uroot']
  const server = await ServiceProcess.start({
    name: 'mariadb',
    user: USER,
    command: [
      ...['mariadbd', '--no-defaults', `--datadir=${data.path}`, `--port=${port}`],
      ...['--bind-address=127.0.0.1', `--socket=${join(data.path, 's')}`],
      ...[`--pid-file=${join(data.path, 'mariadb.pid')}`, '--innodb-buffer-pool-size=16M'],
    ],
    isReady: async () => {
      await promisify(execFile)(client[0] ?? '', [...client.slice(1), '-e', 'SELECT 1'])
      return true
    },
  })
  return {
    client,
    close: async () => {
      await server.close()
      returnPort(port)
      await data.remove()
    },
  }
}
