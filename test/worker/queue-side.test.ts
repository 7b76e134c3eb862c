import { createServer, type Server, type Socket } from 'node:net'
import type { Job } from 'bullmq'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { QueueSide } from '../../src/worker/queue-side.ts'

/** Takes whatever is sent and answers nothing. */
async function blackHole(): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return { server, port: typeof address === 'object' && address !== null ? address.port : 0 }
}

test('a forced close does not wait for a queue server that is gone, and says nothing of what it gave up', async () => {
  const { server, port } = await blackHole()
  const sockets: Socket[] = []
  server.on('connection', (socket) => sockets.push(socket))
  const errors: unknown[] = []
  const side = new QueueSide<unknown>({
    connection: { host: '127.0.0.1', port },
    queue: { prefix: 'bull', queue: 'q' },
    clock: systemClock,
    backend: { forQueue: () => Promise.reject(new Error('not asked')) as never },
    nobodyElseWaits: () => false,
    namespace: 'n',
    slots: 1,
    resource: () => 'a',
    order: 'strict',
    onFailure: 'continue',
    checkpoints: false,
    maxValueBytes: 1,
    endingOf: () => undefined,
    onError: (error) => errors.push(error),
  })
  const job: unknown = { id: '1', queueName: 'q', prefix: 'bull' }
  side.completed(job as Job)
  const settled = side.settle().then(() => 'settled')
  const soon = new Promise((resolve) => setTimeout(resolve, 200, 'still waiting'))
  expect(await Promise.race([settled, soon])).toBe('still waiting')
  await side.close(true)
  expect(await settled).toBe('settled')
  expect(errors).toEqual([])
  for (const socket of sockets) socket.destroy()
  server.close()
})
