/**
 * PostgreSQL without a server: PGlite, served on 127.0.0.1 so that several processes can share it.
 *
 * PGlite has one session, so something must decide whose turn it is. The package's own socket
 * server takes turns by protocol message: with clients in different processes, one client's Bind
 * met the other's Parse, and about a quarter of the answers went to the wrong client. Here a turn
 * is all messages up to a Sync, and a whole transaction if one is open. The data is gone with the
 * process.
 */
import type { AddressInfo, Socket } from 'node:net'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { PGlite } from '@electric-sql/pglite'
import { clientBatches } from './postgres-wire.ts'

export interface EmbeddedPostgres {
  /** A `postgres://` URL, good for any client on this machine. */
  readonly url: string
  close(): Promise<void>
}

export async function startEmbeddedPostgres(): Promise<EmbeddedPostgres> {
  const db = await PGlite.create()
  const turns = new Turns()
  const sessions = new Map<Socket, Promise<void>>()
  const server = createServer((socket) => {
    const session = serve(socket, db, turns).finally(() => sessions.delete(socket))
    sessions.set(socket, session)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `postgres://postgres@127.0.0.1:${(server.address() as AddressInfo).port}/postgres`,
    async close() {
      server.close()
      for (const socket of sessions.keys()) socket.destroy()
      await Promise.all(sessions.values())
      await db.close()
    },
  }
}

async function serve(socket: Socket, db: PGlite, turns: Turns): Promise<void> {
  let endTurn: (() => void) | undefined
  socket.setNoDelay(true)
  // A client that dies (kill -9) resets its connection; the loop below then ends by itself.
  socket.on('error', () => socket.destroy())
  try {
    for await (const batch of clientBatches(socket)) {
      endTurn ??= await turns.next()
      for (const message of batch) socket.write(await db.execProtocolRaw(message))
      if (db.isInTransaction()) continue
      endTurn()
      endTurn = undefined
    }
  } catch {
    // The connection is gone or speaks something else; either way no client is left to tell.
    socket.destroy()
  } finally {
    if (endTurn !== undefined && db.isInTransaction()) await db.exec('ROLLBACK')
    endTurn?.()
  }
}

/** Gives turns one at a time, in the order in which they were asked for. */
class Turns {
  #last: Promise<void> = Promise.resolve()

  async next(): Promise<() => void> {
    const before = this.#last
    let end = (): void => undefined
    this.#last = new Promise((resolve) => (end = resolve))
    await before
    return end
  }
}
