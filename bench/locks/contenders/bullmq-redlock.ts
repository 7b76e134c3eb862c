/** This project as it is published, with every setting at its default. */
import { readFile } from 'node:fs/promises'
import type { Lease } from '../../../src/index.ts'
import { Redlock, silentLogger } from '../../built.ts'
import type { Lock, LockAdapter } from '../contender.ts'

export const adapter: LockAdapter = {
  versions: await Promise.all([
    version('../../../package.json'),
    version('../../../node_modules/ioredis/package.json'),
  ]),
  async connect({ urls, namespace, waitMs, fresh }) {
    const redlock = new Redlock({ masters: urls, namespace, logger: silentLogger })
    await redlock.ready()
    if (fresh === true) await redlock.bootstrap({ newFleet: true })
    return {
      acquire: async (resource, leaseMs) =>
        new HeldLease(await redlock.acquire(resource, { leaseMs, waitMs })),
      close: () => redlock.close(),
    }
  },
}

class HeldLease implements Lock {
  readonly #lease: Lease

  constructor(lease: Lease) {
    this.#lease = lease
  }

  isHeld(): boolean {
    return this.#lease.remainingMs() > 0
  }

  async extend(): Promise<void> {
    const { status } = await this.#lease.extend()
    if (status !== 'extended') throw new Error(`Not extended: ${status}`)
  }

  release(): Promise<void> {
    return this.#lease.release()
  }
}

async function version(path: string): Promise<string> {
  const text = await readFile(new URL(path, import.meta.url), 'utf8')
  const { name, version: number } = JSON.parse(text) as { name: string; version: string }
  return `${name}@${number}`
}
