/** A worker module for the tests of `work`. */
import { LockedWorker, type WorkerContext } from '../../../src/index.ts'

interface Data {
  readonly customerId: number
  readonly untilStopped?: boolean
  /** Does not listen to its signal. */
  readonly isDeaf?: boolean
  /** Warns so often. */
  readonly warns?: number
}

export default ({ redlock, connection, prefix }: WorkerContext): LockedWorker<Data> =>
  new LockedWorker<Data>(
    process.env['QUEUE'] ?? '',
    async ({ id, data }, { signal, fencingToken, logger }) => {
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
    },
    { connection, prefix, redlock, resource: ({ data }) => `customer:${data.customerId}` },
  )
