/**
 * A redis-server with a configuration file of deploy/, in a directory of its own; what the file
 * says stays in force.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { findServerBinary } from '../../src/testing/choose-backend.ts'
import { returnPort, takePort } from '../../src/testing/free-port.ts'
import { LAUNCH, takeDirectory } from '../../src/testing/reaper.ts'

const HOST = '127.0.0.1'

export class RedisProcess implements AsyncDisposable {
  readonly host = HOST
  readonly port: number
  readonly #file: string
  readonly #args: readonly string[]
  readonly #directory = takeDirectory('deployed')
  #child: ChildProcess | undefined

  /** @throws Error with the server's log when it does not start. */
  static async start(file: string, ...args: readonly string[]): Promise<RedisProcess> {
    const server = new RedisProcess(file, args, await takePort(HOST))
    try {
      await server.restart()
      return server
    } catch (error) {
      await server.close()
      throw error
    }
  }

  private constructor(file: string, args: readonly string[], port: number) {
    this.#file = file
    this.#args = args
    this.port = port
  }

  /** With `kill -9`, and the data that it has written. */
  async restart(): Promise<void> {
    await this.#kill()
    const search = await findServerBinary()
    if (search.status === 'missing') throw new Error('no redis-server is installed')
    const { path } = this.#directory
    const child = spawn(
      '/bin/sh',
      [
        ...['-c', LAUNCH, path, search.binary.path, this.#file, '--dir', path, '--bind', HOST],
        // The last one counts: an argument of the test may ask for TLS on this port instead.
        ...[
          '--port',
          `${this.port}`,
          ...this.#args.map((arg) => arg.replace('PORT', `${this.port}`)),
        ],
      ],
      { cwd: path, env: { PATH: process.env['PATH'], LC_ALL: 'C' }, detached: true },
    )
    this.#child = child
    const log: string[] = []
    const ready = new Promise<boolean>((resolve) => {
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          log.push(line)
          if (line.includes('Ready to accept connections')) resolve(true)
        })
      }
      child.once('close', () => {
        resolve(false)
      })
    })
    if (!(await ready)) throw new Error(`redis-server ended:\n${log.join('\n')}`)
  }

  async close(): Promise<void> {
    await this.#kill()
    returnPort(this.port)
    await this.#directory.release()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
}
