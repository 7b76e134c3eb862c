/** How a PostgreSQL client's bytes divide into messages, and messages into batches. */
import type { Socket } from 'node:net'

const SSL_REQUEST = 80_877_103
const CANCEL_REQUEST = 80_877_102
const QUERY = 0x51
const SYNC = 0x53
const TERMINATE = 0x58

/**
 * What a client sends, cut where it waits for an answer: the startup message, a simple query, or
 * the messages of an extended query up to its Sync. Ends when the client says goodbye.
 */
export async function* clientBatches(socket: Socket): AsyncGenerator<readonly Uint8Array[]> {
  let batch: Uint8Array[] = []
  let started = false
  for await (const message of messages(socket, () => started)) {
    const type = message[0]
    if (!started) {
      const code = message.readInt32BE(4)
      if (code === CANCEL_REQUEST) return
      if (code === SSL_REQUEST) {
        socket.write('N')
        continue
      }
      started = true
      yield [message]
      continue
    }
    if (type === TERMINATE) return
    batch.push(message)
    if (type !== QUERY && type !== SYNC) continue
    yield batch
    batch = []
  }
}

/** Until the session has started a message is length and body; afterwards a type byte precedes. */
async function* messages(socket: Socket, started: () => boolean): AsyncGenerator<Buffer> {
  let buffer = Buffer.alloc(0)
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    buffer = Buffer.concat([buffer, chunk])
    for (;;) {
      const typeBytes = started() ? 1 : 0
      if (buffer.length < typeBytes + 4) break
      const length = typeBytes + buffer.readInt32BE(typeBytes)
      if (buffer.length < length) break
      yield buffer.subarray(0, length)
      buffer = buffer.subarray(length)
    }
  }
}
