/** A PostgreSQL of Debian, and pgbouncer in front of it. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, Pool, type PoolConfig } from 'pg'
import { findProgram } from '../find-program.ts'
import type { LockCluster, LockMember, Told } from './lock-cluster.ts'
import { dataDirectory, freePort, returnPort, ServiceProcess } from './service-process.ts'

const HOME = '/usr/lib/postgresql'
const USER = 'postgres'

/** Where the programs of a version that Debian ships are; undefined where none is installed. */
function programs(): string | undefined {
  if (!existsSync(HOME)) return undefined
  const versions = readdirSync(HOME).map(Number).filter(Boolean)
  const directory = join(HOME, String(Math.max(...versions)), 'bin')
  return existsSync(join(directory, 'initdb')) ? directory : undefined
}

export const noPostgres = programs() === undefined
export const noPgbouncer = noPostgres || findProgram('pgbouncer') === undefined

export interface PostgresServer extends LockCluster {
  readonly port: number
  readonly url: string
  readonly process: ServiceProcess
  pool(options?: PoolConfig): Pool
  client(): Client
}

const urlOf = (port: number): string => `postgres://${USER}@127.0.0.1:${port}/postgres`

/** @param env of its processes, such as that of a clock which tests set. */
export async function startPostgres(
  settings: readonly string[] = [],
  told?: Told,
  env: NodeJS.ProcessEnv = {},
): Promise<PostgresServer> {
  const bin = programs() ?? ''
  const data = dataDirectory(USER)
  const port = await freePort()
  const command = [join(bin, 'initdb'), '-D', data.path, '-A', 'trust', '-U', USER, '--no-sync']
  await ServiceProcess.run({ name: 'initdb', user: USER, command })
  return startOn(bin, data, port, settings, told, env)
}

async function startOn(
  bin: string,
  data: ReturnType<typeof dataDirectory>,
  port: number,
  settings: readonly string[],
  told: Told = (own) => Promise.resolve(own),
  env: NodeJS.ProcessEnv = {},
): Promise<PostgresServer> {
  const options = [`port=${port}`, `unix_socket_directories=${data.path}`, 'fsync=off', ...settings]
  const server = await ServiceProcess.start({
    name: 'postgres',
    user: USER,
    command: [
      // Of the server alone, not of the programs that start it as another user.
      ...['env', ...Object.entries(env).map(([name, value = '']) => `${name}=${value}`)],
      ...[join(bin, 'postgres'), '-D', data.path, ...options.flatMap((one) => ['-c', one])],
    ],
    isReady: () => answers(port),
  })
  const close = async (): Promise<void> => {
    await server.close()
    returnPort(port)
    await data.remove()
  }
  const member: LockMember = { name: 'postgres', port, peerPorts: [], process: server }
  return {
    port,
    url: urlOf(port),
    address: urlOf(await told(port)),
    members: [member],
    leader: () => Promise.resolve(member),
    process: server,
    pool: (config = {}) => quiet(new Pool({ connectionString: urlOf(port), ...config })),
    client: () => new Client(urlOf(port)),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A copy of a server that follows it, as an asynchronous standby. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  const bin = programs() ?? ''
  const data = dataDirectory(USER)
  const port = await freePort()
  const from = ['-d', primary.url, '-R', '-X', 'stream']
  const command = [join(bin, 'pg_basebackup'), '-D', data.path, ...from]
  await ServiceProcess.run({ name: 'pg_basebackup', user: USER, command })
  return startOn(bin, data, port, [])
}

export interface Pgbouncer extends AsyncDisposable {
  pool(options?: PoolConfig): Pool
  close(): Promise<void>
}

/** Transaction mode, so that two statements may meet two backends. */
export async function startPgbouncer(server: PostgresServer): Promise<Pgbouncer> {
  const data = dataDirectory(USER)
  const port = await freePort()
  const file = join(data.path, 'pgbouncer.ini')
  writeFileSync(
    file,
    `[databases]
postgres = host=127.0.0.1 port=${server.port} dbname=postgres user=${USER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
server_login_retry = 1
`,
  )
  const service = await ServiceProcess.start({
    name: 'pgbouncer',
    user: USER,
    command: ['pgbouncer', file],
    isReady: () => answers(port),
  })
  const close = async (): Promise<void> => {
    await service.close()
    returnPort(port)
    await data.remove()
  }
  return {
    pool: (config = {}) => quiet(new Pool({ connectionString: urlOf(port), ...config })),
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function answers(port: number): Promise<boolean> {
  const client = new Client({ connectionString: urlOf(port), connectionTimeoutMillis: 1_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('SELECT 1')
    return true
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** A pool reports connections that end while they are idle, and without a listener it throws. */
function quiet(pool: Pool): Pool {
  pool.on('error', () => undefined)
  return pool
}
