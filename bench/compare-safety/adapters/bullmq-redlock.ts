/** This project. */
import { readFile } from 'node:fs/promises'
import {
  QuorumUnreachableError,
  Redlock,
  ResourceTakenError,
  type Lease,
} from '../../../src/index.ts'
import type { Adapter, Client, Held, Setup } from '../adapter.ts'

export const adapter: Adapter = {
  versions: await Promise.all([
    version('../../../package.json'),
    version('../../../node_modules/ioredis/package.json'),
  ]),
  keyPrefix: ({ namespace }) => `${namespace}:lease:`,
  async connect(setup) {
    const { waitMs } = setup
    const redlock = await open(setup)
    const client: Client = {
      acquire: async (resource, leaseMs) =>
        heldBy(await redlock.acquire(resource, { leaseMs, waitMs })),
      using: (resource, leaseMs, work) =>
        redlock.using(resource, { leaseMs, waitMs }, ({ signal }) =>
          work((lost) => {
            signal.addEventListener('abort', lost)
          }),
        ),
      reason(error) {
        if (error instanceof ResourceTakenError) return Promise.resolve('taken')
        return Promise.resolve(error instanceof QuorumUnreachableError ? 'unreachable' : 'unknown')
      },
      close: () => redlock.close(),
    }
    return client
  },
}

async function open({ urls, namespace, masterTimeoutMs, quorum, fresh }: Setup): Promise<Redlock> {
  const ignore = (): void => undefined
  const redlock = new Redlock({
    masters: urls,
    namespace,
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    ...(masterTimeoutMs !== undefined && { masterTimeoutMs }),
    ...(quorum !== undefined && { quorum }), // There is no such option; it is refused.
  })
  await redlock.ready()
  if (fresh === true) await redlock.bootstrap({ newFleet: true })
  return redlock
}

function heldBy(lease: Lease): Held {
  return {
    fencingToken: lease.fencingToken,
    remainingMs: () => lease.remainingMs(),
    isHeld: () => lease.remainingMs() > 0,
    extend: () => lease.extend(),
    release: () => lease.release(),
  }
}

async function version(path: string): Promise<string> {
  const text = await readFile(new URL(path, import.meta.url), 'utf8')
  const { name, version: number } = JSON.parse(text) as { name: string; version: string }
  return `${name}@${number}`
}
