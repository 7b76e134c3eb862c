/** A fault proxy in front of every master. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Fleet } from '../../src/testing/index.ts'
import { startProxy, type FaultProxy } from './proxy.ts'

const CLOSE_LIMIT_MS = 500

export class Proxies implements AsyncDisposable {
  readonly all: readonly FaultProxy[]

  static async start({ masters }: Pick<Fleet, 'masters'>): Promise<Proxies> {
    return new Proxies(await Promise.all(masters.map(({ port }) => startProxy(port))))
  }

  private constructor(all: readonly FaultProxy[]) {
    this.all = all
  }

  get urls(): readonly string[] {
    return this.all.map(({ url }) => url)
  }

  at(index: number): FaultProxy {
    const proxy = this.all[index]
    if (proxy === undefined) throw new Error(`There is no proxy ${index}`)
    return proxy
  }

  async pass(): Promise<void> {
    await Promise.all(this.all.map((proxy) => proxy.pass()))
  }

  /**
   * Node leaks a socket that is reset in the middle of its orderly end, so the clients may end
   * theirs first.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const limit = performance.now() + CLOSE_LIMIT_MS
    while (this.all.some(({ counters }) => counters.open > 0) && performance.now() < limit) {
      await delay(5)
    }
    await Promise.all(this.all.map((proxy) => proxy.close()))
  }
}
