/** The queue on one server, which is killed under load and comes back: what each setting keeps. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startServer, type ServerConfig } from '../../src/testing/index.ts'
import { useFleet } from '../fixtures.ts'
import { Load } from './queue-load.ts'

const fixture = useFleet({ masters: 3, queue: false })
/** Redis puts a write off for so long while an earlier one is on its way to the disk. */
const PUT_OFF_MS = 2_000

test.each<[what: string, config: ServerConfig, forgetsMs: number]>([
  ['appendfsync always: nothing is lost', { appendonly: 'yes', appendfsync: 'always' }, 0],
  ['appendfsync everysec: two seconds at most are lost', { appendonly: 'yes' }, PUT_OFF_MS],
  ['nothing on disk: all is lost, and new jobs run', { appendonly: 'no' }, Infinity],
])('%s', async (_what, config, forgetsMs) => {
  const server = fixture.closing(await startServer({ config }))
  const load = await Load.start(fixture, { connect: () => ({ url: server.url }), workMs: 14 })
  await load.startSlow()
  const since = performance.now() - forgetsMs
  await server.kill()
  await delay(1_000)
  await server.restart()
  const { lost } = await load.judge(since, performance.now())
  if (forgetsMs === 0) expect(lost).toEqual([])
  if (forgetsMs === Infinity) expect(lost.length).toBeGreaterThan(0)
})
