/** What `npm run dev` runs: change it, or anything that it imports, and it starts again. */
import { setTimeout as delay } from 'node:timers/promises'
import { LockedWorker, type WorkerContext } from '../src/index.ts'

export const QUEUE = 'orders'
export const resourceOf = ({ customer }: Order): string => `customer:${customer}`

export interface Order {
  readonly customer: number
  readonly workMs: number
}

export default ({ redlock, connection, prefix }: WorkerContext): LockedWorker<Order, void> =>
  new LockedWorker<Order, void>(
    QUEUE,
    async ({ data: { workMs } }, lease) => {
      await lease.step('charge', () => delay(workMs))
      await lease.step('ship', () => delay(workMs))
    },
    { redlock, connection, prefix, resource: ({ data }) => resourceOf(data), concurrency: 5 },
  )
