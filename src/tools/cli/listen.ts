import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UsageError } from './exit-code.ts'

/** A server that listens. */
export interface OpenPort {
  readonly port: number
  close(): Promise<void>
}

/** `flag` named the port; 0 is a free one. @throws UsageError when it is taken. */
export async function listen(
  server: Server,
  { host, port, flag }: { readonly host: string; readonly port: number; readonly flag: string },
): Promise<OpenPort> {
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') throw new UsageError(`${flag} ${port} is taken: give another, or 0`)
    throw error
  }
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const end = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await end
    },
  }
}
