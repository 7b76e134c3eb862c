import { describe, expect, it } from 'vitest'
import { engineProblem } from '../../src/testing/container-server.ts'
import { startFleet, startServer } from '../../src/testing/index.ts'
import { ping } from '../support/ask.ts'
import { serverCases } from './server-cases.ts'

const START_LIMIT_MS = 120_000

/** Why this machine cannot run the tests below, if it cannot. */
async function findObstacle(): Promise<string | undefined> {
  const problem = await engineProblem()
  if (problem !== undefined) return problem
  try {
    await (await startServer({ backend: 'containers' })).close()
    return undefined
  } catch (error) {
    const message = (error as Error).message
    // An engine without network says nothing about this code.
    if (/pull|registry|no such image/i.test(message)) return message
    throw error
  }
}

const obstacle = await findObstacle()
if (obstacle !== undefined) console.warn(`No test of containers: ${obstacle}`)

describe.skipIf(obstacle !== undefined)('a server in a container', () => {
  serverCases({ backend: 'containers' })
})

describe.skipIf(obstacle !== undefined)('a fleet of containers', () => {
  it(
    'has five masters and a queue, and ends with all of them',
    async () => {
      await using fleet = await startFleet({ backend: 'containers' })
      const servers = [...fleet.masters, fleet.queue]
      expect(new Set(servers.map(({ port }) => port)).size).toBe(6)
      expect(await Promise.all(servers.map(({ url }) => ping(url)))).toEqual(
        servers.map(() => 'PONG'),
      )
      await fleet.close()
      for (const { url } of servers) await expect(ping(url)).rejects.toThrow()
    },
    START_LIMIT_MS,
  )
})
