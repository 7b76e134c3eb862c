/** The queue's Redis as users name it, a URL or ioredis options, as BullMQ takes it. */
import type { MasterAddress } from '../../redlock/wire/connection-settings.ts'

/** What the options say beside the address, such as a certificate, goes with it. */
export function bullmqConnection(address: MasterAddress): { readonly url: string } {
  if (typeof address === 'string') return { url: address }
  const { host = '127.0.0.1', port = 6379, path } = address
  const name = host.includes(':') ? `[${host}]` : host
  return { ...address, url: path ?? `redis://${name}:${port}` }
}
