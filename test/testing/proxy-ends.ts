/** The two ends of a proxied connection. */

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { expect, vi } from 'vitest'

/** A limit for what happens at once on an idle machine. */
export const SOON = { timeout: 5_000, interval: 2 }

/** A server that echoes, and tells what it received. */
export class Echo {
  readonly server: Server
  readonly sockets: Socket[] = []
  received = ''

  constructor() {
    this.server = createServer((socket) => {
      this.sockets.push(socket)
      socket.on('error', () => undefined)
      socket.on('data', (bytes) => {
        this.received += bytes.toString()
        socket.write(bytes)
      })
    })
  }

  async start(): Promise<number> {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    const address = this.server.address()
    if (address === null || typeof address === 'string') throw new Error('Expected a port')
    return address.port
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy()
    this.server.close()
    await once(this.server, 'close')
  }
}

/** A client that keeps what it reads, and how it ended. */
export class Client {
  readonly socket: Socket
  read = ''
  ended: 'open' | 'closed' | 'reset' | 'refused' = 'open'

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.setNoDelay(true)
    this.socket.on('data', (bytes) => {
      this.read += bytes.toString()
    })
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      this.ended = error.code === 'ECONNREFUSED' ? 'refused' : 'reset'
    })
    this.socket.on('close', (hadError) => {
      if (!hadError) this.ended = 'closed'
    })
  }

  async sends(text: string): Promise<void> {
    await new Promise((sent) => this.socket.write(text, sent))
  }

  /** With a limit, and as soon as it is so. */
  async hasRead(text: string): Promise<void> {
    await vi.waitFor(() => {
      expect(this.read).toBe(text)
    }, SOON)
  }

  async isEnded(how: Client['ended']): Promise<void> {
    await vi.waitFor(() => {
      expect(this.ended).toBe(how)
    }, SOON)
  }
}
