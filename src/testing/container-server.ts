/**
 * A Redis server in a container, for machines without a server program. testcontainers finds the
 * engine, and removes the containers of a process that has ended.
 */
import type { getContainerRuntimeClient, StartedTestContainer } from 'testcontainers'
import { systemClock, withinMs } from '../clock.ts'
import { messageOf } from '../message-of.ts'
import { BaseServer } from './base-server.ts'
import { takePort } from './free-port.ts'
import type { ServerConfig } from './test-server.ts'

const IMAGE = 'redis:7-alpine'
const INNER_PORT = 6379
const CONFIG_FILE = '/etc/fleet.conf'
const ANY_INTERFACE = '0.0.0.0'
const ENGINE_LIMIT_MS = 10_000
const START_LIMIT_MS = 60_000

type Docker = Awaited<ReturnType<typeof getContainerRuntimeClient>>
type Engine = ReturnType<Docker['container']['getById']>

/** A kill and a restart keep the container, and with it the port and the data. */
export class ContainerServer extends BaseServer {
  #container: StartedTestContainer | undefined
  #engine: Engine | undefined
  #exited: Promise<unknown> | undefined
  #frozen = false

  static async launch(name: string, config: ServerConfig): Promise<ContainerServer> {
    const server = new ContainerServer(name, config, await takePort(ANY_INTERFACE))
    try {
      await server.#create()
      return server
    } catch (error) {
      await server.close()
      throw error
    }
  }

  get host(): string {
    const host = this.#container?.getHost() ?? 'localhost'
    return host === 'localhost' ? '127.0.0.1' : host
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

  protected async start(keepData: boolean): Promise<void> {
    if (keepData) {
      await this.#container?.copyContentToContainer([this.#configFile()])
      await this.#engine?.start()
      await this.#started()
    } else {
      await this.#container?.stop()
      await this.#create()
    }
  }

  protected async remove(): Promise<void> {
    await this.#container?.stop()
  }

  #living(): Engine {
    if (this.#exited === undefined || this.#engine === undefined) throw this.notRunning()
    return this.#engine
  }

  #configFile(): { readonly content: string; readonly target: string } {
    const config = { 'protected-mode': 'no', ...this.config }
    const placement = { bind: ANY_INTERFACE, port: INNER_PORT, dir: '/data' }
    return { content: this.configText(placement, config), target: CONFIG_FILE }
  }

  async #create(): Promise<void> {
    const { GenericContainer, getContainerRuntimeClient } = await loadTestcontainers()
    this.#container = await new GenericContainer(process.env['FLEET_IMAGE'] ?? IMAGE)
      .withExposedPorts({ container: INNER_PORT, host: this.port })
      .withCopyContentToContainer([this.#configFile()])
      .withCommand(['redis-server', CONFIG_FILE])
      .withStartupTimeout(START_LIMIT_MS)
      .start()
    const { container } = await getContainerRuntimeClient()
    this.#engine = container.getById(this.#container.getId())
    await this.#started()
  }

  async #started(): Promise<void> {
    const timeUp = AbortSignal.timeout(START_LIMIT_MS)
    this.#exited = this.#engine?.wait().finally(() => {
      this.#exited = undefined
      this.#frozen = false
    })
    if (await this.firstAnswer(timeUp)) return
    throw new Error(`${this.name} on port ${this.port}: no answer within ${START_LIMIT_MS} ms`)
  }
}

/** Why no container can be started, in a form that can follow a colon; undefined where one can. */
export async function engineProblem(): Promise<string | undefined> {
  let library: Awaited<ReturnType<typeof loadTestcontainers>>
  try {
    library = await loadTestcontainers()
  } catch (error) {
    return messageOf(error)
  }
  const asked = library.getContainerRuntimeClient().then(
    () => 'ready',
    () => 'no Docker engine answers',
  )
  const answer = await withinMs(systemClock, ENGINE_LIMIT_MS, asked)
  if (answer === 'ready') return undefined
  return answer ?? `the Docker engine did not answer within ${ENGINE_LIMIT_MS} ms`
}

/** Loaded only when containers are asked for: the package does not depend on it. */
async function loadTestcontainers() {
  try {
    return await import('testcontainers')
  } catch (cause) {
    const message = 'the package testcontainers is not installed: npm install -D testcontainers'
    throw new Error(message, { cause })
  }
}
