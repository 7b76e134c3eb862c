/** A worker module for the tests of `work`. */
import {
  LockedWorker,
  Redlock,
  ShardedWorker,
  type LeasedProcessor,
  type WorkerContext,
} from '../../../src/index.ts'

interface Data {
  readonly customerId: number
  readonly untilStopped?: boolean
  /** Does not listen to its signal. */
  readonly isDeaf?: boolean
  /** Warns so often. */
  readonly warns?: number
}

const { QUEUE = '', SHARDS, OWN_MASTERS, OWN_NAMESPACE = '' } = process.env

const post: LeasedProcessor<Data, unknown> = async ({ id, data }, lease) => {
  const { signal, fencingToken, logger } = lease
  process.stdout.write(`started ${id ?? ''} ${fencingToken}\n`)
  for (let nr = 0; nr < (data.warns ?? 0); nr += 1) {
    logger.warn({ nr }, 'x'.repeat(1_000))
    process.stdout.write(`${'y'.repeat(1_000)}\n`)
  }
  if (data.isDeaf === true) await new Promise(() => undefined)
  if (data.untilStopped === true) {
    await new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(signal.reason as Error)
      })
    })
  }
  process.stdout.write(`finished ${id ?? ''}\n`)
}

/** With `SHARDS`, the worker of a sharded queue. With `OWN_MASTERS`, only it knows them. */
export default (context: WorkerContext): LockedWorker<Data> | ShardedWorker<Data> => {
  const { connection, prefix } = context
  const redlock =
    OWN_MASTERS === undefined
      ? context.redlock
      : new Redlock({
          ...{ masters: OWN_MASTERS.split(','), namespace: OWN_NAMESPACE },
          ...{ leaseMs: 20_000, maxLeaseMs: 20_000 },
        })
  const resource = ({ data }: { readonly data: Data }): string => `customer:${data.customerId}`
  const options = { connection, redlock, resource }
  return SHARDS === undefined
    ? new LockedWorker<Data>(QUEUE, post, { ...options, prefix })
    : new ShardedWorker<Data>(QUEUE, post, { ...options, shards: Number(SHARDS) })
}
