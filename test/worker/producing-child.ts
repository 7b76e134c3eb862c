/** A process that adds jobs without end, many at a time, and tells how many are stored. */
import { LockedQueue } from '../../src/index.ts'

export interface ProducingSetup {
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly producers: number
}

const { queue, connection, producers } = JSON.parse(process.argv[2] ?? '') as ProducingSetup
let stored = 0

async function produce(nr: number): Promise<never> {
  const own = new LockedQueue<{ nr: number }>(queue, {
    connection,
    resource: () => `customer:${nr % 3}`,
  })
  for (;;) {
    await own.add('charge', { nr })
    process.send?.(++stored)
  }
}

await Promise.all(Array.from({ length: producers }, (_, nr) => produce(nr)))
