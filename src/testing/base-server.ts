/** What servers have in common, whatever runs them: a configuration, a port, and a first answer. */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { returnPort } from './free-port.ts'
import type { RestartOptions, ServerConfig, TestServer } from './test-server.ts'

/** Nothing is written to disk and nothing is evicted, unless a test says otherwise. */
const DEFAULTS: ServerConfig = {
  save: '""',
  appendonly: 'no',
  'maxmemory-policy': 'noeviction',
  loglevel: 'warning',
}
/** What the fleet itself decides; a test that changed it would lose its server. */
const RESERVED = new Set(['port', 'bind', 'dir', 'daemonize', 'pidfile', 'logfile', 'unixsocket'])
const BETWEEN_TRIES_MS = 15
const ANSWER_LIMIT_MS = 1_000

/** Where a server listens and writes. */
interface ServerPlacement {
  readonly bind: string
  readonly port: number
  readonly dir: string
}

export abstract class BaseServer implements TestServer {
  readonly name: string
  readonly port: number
  abstract readonly host: string
  abstract readonly running: boolean
  protected config: ServerConfig
  #closed = false

  protected constructor(name: string, config: ServerConfig, port: number) {
    this.name = name
    this.port = port
    this.config = config
  }

  abstract kill(): Promise<void>
  abstract freeze(): Promise<void>
  abstract thaw(): Promise<void>
  /** Starts what was killed. */
  protected abstract start(keepData: boolean): Promise<void>
  /** Removes what was killed. */
  protected abstract remove(): Promise<void>

  get url(): string {
    const password = this.#password()
    const login = password === undefined ? '' : `:${encodeURIComponent(password)}@`
    return `redis://${login}${this.host}:${this.port}`
  }

  async restart({ keepData = true, config = {} }: RestartOptions = {}): Promise<void> {
    this.assertOpen()
    await this.kill()
    this.config = { ...this.config, ...config }
    await this.start(keepData)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.kill()
    returnPort(this.port)
    await this.remove()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  protected assertOpen(): void {
    if (this.#closed) throw new Error(`${this.name} is closed, it cannot be restarted`)
  }

  protected notRunning(): Error {
    return new Error(`${this.name} on port ${this.port} is not running`)
  }

  /**
   * The text of a redis.conf.
   * @throws TypeError for a directive that the fleet decides, or one that is not a single line
   */
  protected configText({ bind, port, dir }: ServerPlacement, config: ServerConfig): string {
    for (const [directive, value] of Object.entries(config)) {
      if (RESERVED.has(directive.toLowerCase())) {
        throw new TypeError(`The directive \`${directive}\` belongs to the fleet, it cannot be set`)
      }
      if (!/^[a-z][a-z0-9-]*$/i.test(directive) || /[\r\n]/.test(value)) {
        throw new TypeError(`Expected one directive and one line, got ${directive} ${value}`)
      }
    }
    const own = { bind, port: `${port}`, dir: JSON.stringify(dir), daemonize: 'no' }
    return Object.entries({ ...DEFAULTS, ...config, ...own })
      .map(([directive, value]) => `${directive} ${value}\n`)
      .join('')
  }

  /**
   * Tries until the server answers PING (`true`), or until the signal aborts (`false`).
   * @param pid of the process that has to answer; another server may have taken the port before.
   */
  protected async firstAnswer(signal: AbortSignal, pid?: number): Promise<boolean> {
    while (!signal.aborted) {
      if (await this.#answers(pid)) return true
      await delay(BETWEEN_TRIES_MS)
    }
    return false
  }

  async #answers(pid: number | undefined): Promise<boolean> {
    const client = new Redis({
      ...{ host: this.host, port: this.port, password: this.#password() ?? '' },
      ...{ connectTimeout: ANSWER_LIMIT_MS, commandTimeout: ANSWER_LIMIT_MS },
      ...{ lazyConnect: true, retryStrategy: () => null, enableReadyCheck: false },
      ...{ disconnectTimeout: 0, maxRetriesPerRequest: 0 },
    })
    client.on('error', () => undefined) // A refused connection is the ordinary case.
    try {
      await client.connect()
      await client.ping()
      return pid === undefined || (await client.info('server')).includes(`\nprocess_id:${pid}\r`)
    } catch {
      return false
    } finally {
      client.disconnect()
    }
  }

  /** Of the default user, if the configuration asks for one. */
  #password(): string | undefined {
    return this.config['requirepass']?.replace(/^"(.*)"$/, '$1') || undefined
  }
}
