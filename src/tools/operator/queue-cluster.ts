/** The client of a queue on a cluster, of which the address of one node is known. */
import type { Cluster, RedisOptions } from 'ioredis'
import type { MasterAddress } from '../../redlock/wire/connection-settings.ts'
import { ioredis } from '../../ioredis.ts'
import type { QueueServer } from './queue-server.ts'

/** Undefined for one server, and for one that does not answer. */
export async function clusterAt(
  address: MasterAddress,
  server: QueueServer,
): Promise<Cluster | undefined> {
  if (!(await server.isCluster())) return undefined
  const { Cluster } = ioredis()
  const options = typeof address === 'string' ? optionsOf(new URL(address)) : address
  const { host = '127.0.0.1', port = 6379, username, password, tls } = options
  const cluster = new Cluster([{ host, port }], {
    redisOptions: {
      maxRetriesPerRequest: null,
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(tls !== undefined && { tls }),
    },
  })
  cluster.on('error', () => undefined) // Workers tell of it.
  return cluster
}

/** A cluster's client takes a login for all nodes as options only. */
function optionsOf({ protocol, hostname, port, username, password }: URL): RedisOptions {
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: {} }),
  }
}
