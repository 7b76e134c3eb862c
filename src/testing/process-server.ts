import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { BaseServer } from './base-server.ts'
import { takePort } from './free-port.ts'
import { LAUNCH, removeTree, takeDirectory, type ChildDirectory } from './reaper.ts'
import type { ServerConfig } from './test-server.ts'

const HOST = '127.0.0.1'
const START_LIMIT_MS = 15_000
const STOP_LIMIT_MS = 2_000
const MAX_PORTS = 5

/** A `redis-server` process of this machine, in its own directory. */
export class ProcessServer extends BaseServer {
  readonly host: string = HOST
  readonly #binary: string
  readonly #directory: ChildDirectory
  #child: ChildProcess | undefined

  /** Starts a server on a free port, and on another one if another program was faster. */
  static async launch(name: string, config: ServerConfig, binary: string): Promise<ProcessServer> {
    for (let attempt = 1; ; attempt += 1) {
      const server = new ProcessServer(name, config, binary, await takePort(HOST))
      try {
        await server.#launch()
        return server
      } catch (error) {
        const portWasTaken = server.#log().includes('Address already in use')
        await server.close()
        if (!portWasTaken || attempt === MAX_PORTS) throw error
      }
    }
  }

  private constructor(name: string, config: ServerConfig, binary: string, port: number) {
    super(name, config, port)
    this.#binary = binary
    this.#directory = takeDirectory(name)
  }

  get running(): boolean {
    return this.#child !== undefined
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  async freeze(): Promise<void> {
    const pid = this.#living()
    process.kill(pid, 'SIGSTOP')
    const stopped = AbortSignal.timeout(STOP_LIMIT_MS)
    while (this.running && !stopped.aborted && !isStopped(pid)) await delay(1)
  }

  thaw(): Promise<void> {
    process.kill(this.#living(), 'SIGCONT')
    return Promise.resolve()
  }

  protected async start(keepData: boolean): Promise<void> {
    const entries = keepData ? [] : readdirSync(this.#directory.path)
    for (const entry of entries) await removeTree(this.#file(entry))
    this.assertOpen()
    await this.#launch()
  }

  protected remove(): Promise<void> {
    return this.#directory.release()
  }

  #living(): number {
    const pid = this.#child?.pid
    if (pid === undefined) throw this.notRunning()
    return pid
  }

  async #launch(): Promise<void> {
    const child = this.#spawn()
    const { pid } = child
    if (pid === undefined) throw new Error(`${this.name}: /bin/sh could not be started`)
    const exited = new AbortController()
    const timeUp = AbortSignal.timeout(START_LIMIT_MS)
    this.#child = child
    child.once('exit', () => {
      this.#child = undefined
      rmSync(this.#file('pid'), { force: true })
      exited.abort()
    })
    if (await this.firstAnswer(AbortSignal.any([exited.signal, timeUp]), pid)) return
    const why = exited.signal.aborted ? 'it ended' : `no answer within ${START_LIMIT_MS} ms`
    await this.kill()
    throw new Error(`${this.#binary} did not start on port ${this.port}: ${why}\n${this.#log()}`)
  }

  /** Detached, so that the terminal's Ctrl-C reaches the test and not its servers. */
  #spawn(): ChildProcess {
    const { path } = this.#directory
    const file = this.#file('redis.conf')
    const placement = { bind: HOST, port: this.port, dir: path }
    writeFileSync(file, this.configText(placement, this.config))
    const log = openSync(this.#file('server.log'), 'w')
    try {
      const child = spawn('/bin/sh', ['-c', LAUNCH, path, this.#binary, file], {
        cwd: path,
        detached: true,
        // Redis refuses to start in a locale that is set and not installed.
        env: { PATH: process.env['PATH'], LC_ALL: 'C' },
        stdio: ['ignore', log, log],
      })
      // Reported through the missing pid.
      child.once('error', () => undefined)
      return child
    } finally {
      closeSync(log)
    }
  }

  #file(name: string): string {
    return join(this.#directory.path, name)
  }

  #log(): string {
    try {
      return readFileSync(this.#file('server.log'), 'utf8')
    } catch (error) {
      return `(no log: ${String(error)})`
    }
  }
}

/** A signal arrives a moment after it is sent; Linux says when. Elsewhere the moment is trusted. */
function isStopped(pid: number): boolean {
  const file = `/proc/${pid}/stat`
  if (process.platform !== 'linux' || !existsSync(file)) return true
  const stat = readFileSync(file, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
}
