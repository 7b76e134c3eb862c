/** This project as it is published, with every setting at its default. */
import type { Lease } from '../../../src/index.ts'
import { QuorumUnreachableError, Redlock, ResourceTakenError, silentLogger } from '../../built.ts'
import type { Adapter, Held } from '../adapter.ts'
import { versionIn } from '../load.ts'

export const adapter: Adapter = {
  versions: await Promise.all(['../..', '../../node_modules/ioredis'].map(versionIn)),
  keyPrefix: ({ namespace }) => `${namespace}:lease:`,
  async connect({ urls, namespace, waitMs, masterTimeoutMs, quorum, fresh }) {
    const redlock = new Redlock({
      ...{ masters: urls, namespace, logger: silentLogger },
      ...(masterTimeoutMs !== undefined && { masterTimeoutMs }),
      ...(quorum !== undefined && { quorum }), // There is no such option; it is refused.
    })
    await redlock.ready()
    if (fresh === true) await redlock.bootstrap({ newFleet: true })
    return {
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
  },
}

function heldBy(lease: Lease): Held {
  return {
    fencingToken: lease.fencingToken,
    remainingMs: () => lease.remainingMs(),
    isHeld: () => lease.remainingMs() > 0,
    release: () => lease.release(),
  }
}
