import { chooseBackend, type BackendChoice } from './choose-backend.ts'
import type { Backend, ServerConfig, TestServer } from './test-server.ts'
import { ContainerServer } from './container-server.ts'
import { ProcessServer } from './process-server.ts'

/** How many servers to start, and with what. */
export interface FleetOptions {
  /**
   * How many independent lock servers.
   *
   * @defaultValue `5`
   */
  readonly masters?: number
  /**
   * Whether to start a further server for BullMQ.
   *
   * @defaultValue `true`
   */
  readonly queue?: boolean
  /** Further redis.conf directives for every master: `{ appendonly: 'yes' }`. */
  readonly config?: ServerConfig
  /** What runs the servers. Default: what this machine has, as for a single server. */
  readonly backend?: Backend
}

/** Independent lock servers, and one server for the queue. */
export interface Fleet extends AsyncDisposable {
  /** The lock servers. */
  readonly masters: readonly TestServer[]
  /** BullMQ's server. Reading it throws when the fleet was started with `queue: false`. */
  readonly queue: TestServer
  /** The masters' URLs, in the order of {@link masters}. */
  readonly urls: readonly string[]
  /** Ends every server, frozen ones too. Calling it again does nothing. */
  close(): Promise<void>
}

/**
 * Starts real Redis servers on free ports, each in its own directory. They are gone when the
 * fleet is closed or when this process ends, in whatever way.
 *
 * @throws Error when a server does not start, with its log; none is left running then
 *
 * @example
 * ```ts
 * await using fleet = await startFleet({ masters: 5 })
 * await fleet.masters[0]?.kill()
 * ```
 */
export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  const { masters: size = 5, queue: withQueue = true, config = {}, backend } = options
  if (!Number.isInteger(size) || size < 0) {
    throw new TypeError(`Expected \`masters\` to be an integer >= 0, got \`${size}\``)
  }
  const choice = await chooseBackend(backend)
  const names = Array.from({ length: size }, (_, index) => `master-${index + 1}`)
  const starts = names.map((name) => startOn(choice, name, config))
  if (withQueue) starts.push(startOn(choice, 'queue', {}))

  const outcomes = await Promise.allSettled(starts)
  const servers = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  )
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) {
    await closeAll(servers)
    throw failed.reason
  }
  const close = (): Promise<void> => closeAll(servers)
  const masters = servers.slice(0, size)
  return {
    masters,
    get queue() {
      const last = servers[size]
      if (last === undefined) throw new Error('This fleet was started with `queue: false`')
      return last
    },
    get urls() {
      return masters.map(({ url }) => url)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function closeAll(servers: readonly TestServer[]): Promise<void> {
  await Promise.all(servers.map((server) => server.close()))
}

/** How to start one server. */
export interface ServerOptions {
  /**
   * What the server is for; appears in error messages.
   *
   * @defaultValue `'server'`
   */
  readonly name?: string
  /** Further redis.conf directives. */
  readonly config?: ServerConfig
  /**
   * What runs the server. Default: the environment variable `FLEET` if it is set, else a
   * redis-server or valkey-server (7.0 or newer) on the PATH, else Docker.
   */
  readonly backend?: Backend
}

/**
 * Starts one real Redis server on a free port. It is gone when it is closed or when this process
 * ends, in whatever way.
 * @throws Error when nothing on this machine can run a server, saying what to install
 * @example
 * ```ts
 * await using server = await startServer({ config: { appendonly: 'yes' } })
 * console.log(server.url)
 * ```
 */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const { name = 'server', config = {}, backend } = options
  if (!/^[\w-]+$/.test(name)) {
    throw new TypeError(`Expected \`name\` to be letters, digits, - and _, got \`${name}\``)
  }
  return startOn(await chooseBackend(backend), name, config)
}

/** Starts a server on a backend that was already chosen. */
export async function startOn(
  choice: BackendChoice,
  name: string,
  config: ServerConfig,
): Promise<TestServer> {
  if (choice.backend === 'processes') {
    return ProcessServer.launch(name, config, choice.binary.path)
  }
  return ContainerServer.launch(name, config)
}
