import type { ContainerRuntimeClient } from 'testcontainers'
import { firstAnswer } from './first-answer.ts'
import { returnPort, takePort } from './free-port.ts'
import { loadTestcontainers } from './load-testcontainers.ts'
import { configText, passwordOf, serverUrl } from './server-config.ts'
import type { RestartOptions, ServerConfig, TestServer } from './test-server.ts'

const DEFAULT_IMAGE = 'redis:7-alpine'
const LOOPBACK = '127.0.0.1'
const ANY_INTERFACE = '0.0.0.0'
const INNER_PORT = 6379
const DATA = '/data'
/** On every container and volume, with the id of the process that started them. */
export const FLEET_LABEL = 'bullmq-redlock.fleet'

const START_LIMIT_MS = 60_000
const MAX_PORTS = 5

/** The configuration travels in the environment: a file would have to exist on the Docker host. */
const COMMAND = 'printf %s "$FLEET_CONFIG" >/tmp/fleet.conf && exec redis-server /tmp/fleet.conf'

type ContainerClient = ContainerRuntimeClient['container']
type Container = ReturnType<ContainerClient['getById']>
type Volume = Awaited<ReturnType<ContainerClient['dockerode']['createVolume']>>

/** The part of the engine that belongs to this process, labelled for testcontainers' own reaper. */
interface Engine {
  readonly client: ContainerRuntimeClient
  readonly image: string
  readonly labels: Record<string, string>
}

/**
 * A Redis server in its own container, published on a fixed port of the Docker host. Every
 * start makes a new container; the data stay in a volume. What a dead process leaves behind is
 * removed by testcontainers' reaper, unless that is disabled.
 */
export class ContainerServer implements TestServer {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly #engine: Engine
  #config: ServerConfig
  #volume: Volume | undefined
  #container: Container | undefined
  #exited: Promise<void> | undefined
  #frozen = false
  #closed = false

  /** Starts a server on a free port, and on another one if another program was faster. */
  static async start(name: string, config: ServerConfig): Promise<ContainerServer> {
    const engine = await openEngine()
    for (let attempt = 1; ; attempt += 1) {
      const server = new ContainerServer(name, config, engine, await takePort(ANY_INTERFACE))
      try {
        await server.#launch()
        return server
      } catch (error) {
        await server.close()
        const portWasTaken = /already (in use|allocated)/.test(String(error))
        if (!portWasTaken || attempt === MAX_PORTS) throw error
      }
    }
  }

  private constructor(name: string, config: ServerConfig, engine: Engine, port: number) {
    const { host } = engine.client.info.containerRuntime
    this.name = name
    this.port = port
    this.host = host === 'localhost' ? LOOPBACK : host
    this.#config = config
    this.#engine = engine
  }

  get url(): string {
    return serverUrl(this.host, this.port, this.#config)
  }

  get running(): boolean {
    return this.#exited !== undefined
  }

  async kill(): Promise<void> {
    const exited = this.#exited
    if (exited === undefined) return
    // An engine cannot be relied upon to kill what it has paused.
    if (this.#frozen) await this.thaw()
    await this.#living().kill()
    await exited
  }

  async freeze(): Promise<void> {
    await this.#living().pause()
    this.#frozen = true
  }

  async thaw(): Promise<void> {
    await this.#living().unpause()
    this.#frozen = false
  }

  async restart({ keepData = true, config = {} }: RestartOptions = {}): Promise<void> {
    if (this.#closed) throw new Error(`${this.name} is closed, it cannot be restarted`)
    await this.kill()
    await this.#removeContainer()
    if (!keepData) await this.#removeVolume()
    this.#config = { ...this.#config, ...config }
    await this.#launch()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.kill()
    await this.#removeContainer()
    await this.#removeVolume()
    returnPort(this.port)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Where the port is published. On this machine no other program needs to reach it. */
  get #interface(): string {
    return this.host === LOOPBACK ? LOOPBACK : ANY_INTERFACE
  }

  #living(): Container {
    if (this.#exited === undefined || this.#container === undefined) {
      throw new Error(`${this.name} on port ${this.port} is not running`)
    }
    return this.#container
  }

  async #launch(): Promise<void> {
    const { client, labels } = this.#engine
    this.#volume ??= await client.container.dockerode.createVolume({ Labels: labels })
    const container = await client.container.create(this.#description(this.#volume.name))
    this.#container = container
    await container.start()

    const ended = new AbortController()
    this.#exited = (container.wait() as Promise<unknown>).then(
      () => undefined,
      // The container is gone, which is what was waited for.
      () => undefined,
    )
    void this.#exited.then(() => {
      this.#exited = undefined
      this.#frozen = false
      ended.abort()
    })
    const expected = { host: this.host, port: this.port, password: passwordOf(this.#config) }
    const timeUp = AbortSignal.timeout(START_LIMIT_MS)
    if (await firstAnswer(expected, AbortSignal.any([ended.signal, timeUp]))) return
    const why = ended.signal.aborted ? 'it ended' : `no answer within ${START_LIMIT_MS} ms`
    const log = await container.logs({ stdout: true, stderr: true, follow: false })
    throw new Error(
      `${this.#engine.image} did not start on port ${this.port}: ${why}\n${log.toString()}`,
    )
  }

  #description(volume: string): Parameters<ContainerClient['create']>[0] {
    const inner = `${INNER_PORT}/tcp`
    const config = { 'protected-mode': 'no', ...this.#config }
    const text = configText({ bind: ANY_INTERFACE, port: INNER_PORT, dir: DATA }, config)
    return {
      Image: this.#engine.image,
      Entrypoint: ['sh', '-c', COMMAND],
      Env: [`FLEET_CONFIG=${text}`],
      Labels: this.#engine.labels,
      ExposedPorts: { [inner]: {} },
      HostConfig: {
        PortBindings: { [inner]: [{ HostIp: this.#interface, HostPort: `${this.port}` }] },
        Binds: [`${volume}:${DATA}`],
      },
      // With a terminal the engine hands out the log as it was written.
      Tty: true,
    }
  }

  async #removeContainer(): Promise<void> {
    await this.#container?.remove({ force: true })
    this.#container = undefined
  }

  async #removeVolume(): Promise<void> {
    await this.#volume?.remove()
    this.#volume = undefined
  }
}

async function openEngine(): Promise<Engine> {
  const library = await loadTestcontainers()
  const client = await library.getContainerRuntimeClient()
  const image = library.ImageName.fromString(process.env['FLEET_IMAGE'] ?? DEFAULT_IMAGE)
  await client.image.pull(image)
  const reaper = await library.getReaper(client)
  const labels = {
    [library.LABEL_TESTCONTAINERS_SESSION_ID]: reaper.sessionId,
    [FLEET_LABEL]: `${process.pid}`,
  }
  return { client, image: image.string, labels }
}
