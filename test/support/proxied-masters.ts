/** Lock masters with a fault proxy in front of each, and a connection past it. */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { TestServer } from '../../src/testing/index.ts'
import { startProxy, type FaultProxy } from './proxy.ts'

const CLOSE_LIMIT_MS = 1_000

export class ProxiedMasters implements AsyncDisposable {
  readonly servers: readonly TestServer[]
  /** In the order of the servers, as everything here. */
  readonly proxies: readonly FaultProxy[]
  /** Past the proxies. */
  readonly connections: readonly Redis[]

  static async start(servers: readonly TestServer[]): Promise<ProxiedMasters> {
    return new ProxiedMasters(
      servers,
      await Promise.all(servers.map(({ port }) => startProxy(port))),
    )
  }

  private constructor(servers: readonly TestServer[], proxies: readonly FaultProxy[]) {
    this.servers = servers
    this.proxies = proxies
    this.connections = servers.map(({ url }) => patientRedis(url))
  }

  /** Of the proxies. */
  get urls(): readonly string[] {
    return this.proxies.map(({ url }) => url)
  }

  server(index: number): TestServer {
    return item(this.servers, index)
  }

  proxy(index: number): FaultProxy {
    return item(this.proxies, index)
  }

  connection(index: number): Redis {
    return item(this.connections, index)
  }

  async pass(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.pass()))
  }

  /** Ends whatever fault there is. */
  async heal(): Promise<void> {
    await this.pass()
    for (const server of this.servers) await (server.running ? server.thaw() : server.restart())
  }

  /**
   * Node leaks a socket that is reset in the middle of its orderly end, so the clients may end
   * theirs first.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const redis of this.connections) redis.disconnect()
    const limit = performance.now() + CLOSE_LIMIT_MS
    while (this.proxies.some(({ counters }) => counters.open > 0) && performance.now() < limit) {
      await delay(5)
    }
    await Promise.all(this.proxies.map((proxy) => proxy.close()))
  }
}

/** Connects with its first command, and again when a server that was killed is back. */
export function patientRedis(url: string): Redis {
  const redis = new Redis(url, {
    ...{ lazyConnect: true, retryStrategy: () => 20, maxRetriesPerRequest: null },
  })
  redis.on('error', () => undefined)
  return redis
}

export function item<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new Error(`There is no item ${index}`)
  return value
}
