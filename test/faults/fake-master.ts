/**
 * A server that a Redlock takes for a master until it is asked to vote: it answers the enrolment as
 * Redis does, and every script call with whatever bytes a test wants to see handled.
 */
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { returnPort, takePort } from '../../src/testing/free-port.ts'

const HOST = '127.0.0.1'

export class FakeMaster implements AsyncDisposable {
  /** What EVALSHA is answered with, as raw bytes. */
  reply: string
  /** How many script calls were answered with it. */
  calls = 0
  readonly port: number
  readonly #runId: string
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  static async start(reply: string): Promise<FakeMaster> {
    const port = await takePort(HOST)
    const fake = new FakeMaster(port, reply)
    fake.#server.listen(port, HOST)
    await once(fake.#server, 'listening')
    return fake
  }

  private constructor(port: number, reply: string) {
    this.port = port
    this.reply = reply
    this.#runId = String(port).padStart(40, '0')
    this.#server = createServer((socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => undefined) // A client that meets nonsense may reset.
      socket.on('close', () => this.#sockets.delete(socket))
      let rest = ''
      socket.on('data', (bytes) => {
        const { commands, left } = parseCommands(rest + bytes.toString('latin1'))
        rest = left
        for (const command of commands) socket.write(this.#answer(command), 'latin1')
      })
    })
  }

  get url(): string {
    return `redis://${HOST}:${this.port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
    returnPort(this.port)
  }

  #answer([name = '', ...args]: readonly string[]): string {
    switch (name.toUpperCase()) {
      case 'INFO':
        return bulk(
          `redis_version:7.0.15\r\nrun_id:${this.#runId}\r\nloading:0\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n`,
        )
      case 'CONFIG':
        return `*2\r\n${bulk('appendfsync')}${bulk('no')}`
      case 'TIME': {
        const now = Date.now()
        return `*2\r\n${bulk(`${Math.floor(now / 1_000)}`)}${bulk(`${(now % 1_000) * 1_000}`)}`
      }
      case 'SCAN':
        return `*2\r\n${bulk('0')}*0\r\n`
      case 'EVAL':
        return `*5\r\n${bulk('enrolled')}:0\r\n${bulk('')}${bulk('')}:${Date.now()}\r\n`
      case 'SCRIPT':
        return bulk(args[0] ?? '')
      case 'EVALSHA':
        this.calls += 1
        return this.reply
      default:
        return '+OK\r\n'
    }
  }
}

export function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`
}

/** Whole commands (arrays of bulk strings) at the beginning of a stream, and what is left of it. */
function parseCommands(stream: string): {
  readonly commands: readonly (readonly string[])[]
  readonly left: string
} {
  const commands: string[][] = []
  let at = 0
  for (;;) {
    const command: string[] = []
    const head = /^\*(\d+)\r\n/.exec(stream.slice(at))
    if (head === null) return { commands, left: stream.slice(at) }
    let next = at + head[0].length
    for (let index = 0; index < Number(head[1]); index++) {
      const size = /^\$(\d+)\r\n/.exec(stream.slice(next, next + 16))
      if (size === null) return { commands, left: stream.slice(at) }
      const from = next + size[0].length
      const to = from + Number(size[1])
      if (stream.length < to + 2) return { commands, left: stream.slice(at) }
      command.push(stream.slice(from, to))
      next = to + 2
    }
    commands.push(command)
    at = next
  }
}
