import { type BackendChoice, chooseBackend } from './choose-backend.ts'
import { ContainerServer } from './container-server.ts'
import { ProcessServer } from './process-server.ts'
import type { Backend, ServerConfig, TestServer } from './test-server.ts'

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
    return ProcessServer.start(name, config, choice.binary.path)
  }
  return ContainerServer.start(name, config)
}
