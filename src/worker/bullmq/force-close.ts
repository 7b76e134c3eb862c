/** Ends the connections of a backend that waits for a server which is away. */
import type { LineBackend } from './line-backend.ts'

/** BullMQ waits for a connection before it closes it; its client can be ended at once. */
export function disconnectNow({ connection, blockingConnection }: LineBackend): void {
  for (const each of [connection, blockingConnection]) {
    const { _client: client } = (each ?? {}) as { readonly _client?: { disconnect(): void } }
    client?.disconnect()
  }
}
