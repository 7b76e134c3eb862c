/**
 * A relay that forwards byte by byte, as the worst of networks may; what it carries is whole in the
 * end.
 */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { returnPort, takePort } from '../../src/testing/free-port.ts'

const HOST = '127.0.0.1'

export class Trickle implements AsyncDisposable {
  readonly port: number
  /** Bytes forwarded, each in a packet of its own. */
  packets = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  static async start(targetPort: number): Promise<Trickle> {
    const trickle = new Trickle(targetPort, await takePort(HOST))
    trickle.#server.listen(trickle.port, HOST)
    await once(trickle.#server, 'listening')
    return trickle
  }

  private constructor(targetPort: number, port: number) {
    this.port = port
    this.#server = createServer({ noDelay: true }, (client) => {
      const server = connect({ host: HOST, port: targetPort, noDelay: true })
      this.#relay(client, server)
      this.#relay(server, client)
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

  #relay(from: Socket, to: Socket): void {
    this.#sockets.add(from)
    from.on('error', () => undefined) // 'close' follows.
    from.on('close', () => {
      this.#sockets.delete(from)
      to.destroy()
    })
    let turn = Promise.resolve()
    from.on('data', (bytes: Buffer) => {
      turn = turn.then(() => this.#pour(bytes, to))
    })
  }

  async #pour(bytes: Buffer, to: Socket): Promise<void> {
    for (const byte of bytes) {
      if (to.destroyed) return
      this.packets += 1
      await new Promise<void>((sent) => {
        to.write(Buffer.of(byte), () => {
          setImmediate(sent)
        })
      })
    }
  }
}
