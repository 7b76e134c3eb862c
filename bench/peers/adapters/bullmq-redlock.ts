/** This project as it is published, with every setting at its default. */
import { QuorumUnreachableError, Redlock, ResourceTakenError, silentLogger } from '../../built.ts'
import { whenAborted, type Connect } from '../adapter.ts'

export const connect: Connect = async (setup) => {
  const { urls, namespace, waitMs, masterTimeoutMs, quorum, fresh } = setup
  const redlock = new Redlock({
    ...{ masters: urls, namespace, logger: silentLogger },
    ...(masterTimeoutMs !== undefined && { masterTimeoutMs }),
    ...(quorum !== undefined && { quorum }), // There is no such option; it is refused.
  })
  await redlock.ready()
  if (fresh === true) await redlock.bootstrap({ newFleet: true })
  return {
    keyPrefix: `${namespace}:lease:`,
    async acquire(resource, leaseMs) {
      const lease = await redlock.acquire(resource, { leaseMs, waitMs })
      return {
        fencingToken: lease.fencingToken,
        remainingMs: () => lease.remainingMs(),
        isHeld: () => lease.remainingMs() > 0,
        release: () => lease.release(),
      }
    },
    using: (resource, leaseMs, work) =>
      redlock.using(resource, { leaseMs, waitMs }, ({ signal }) => work(whenAborted(signal))),
    reason(error) {
      if (error instanceof ResourceTakenError) return 'taken'
      return error instanceof QuorumUnreachableError ? 'unreachable' : 'unknown'
    },
    close: () => redlock.close(),
  }
}
