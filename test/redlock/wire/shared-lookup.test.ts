/** A name that no server answers for holds one lookup, however often it is tried. */
import type { LookupAddress } from 'node:dns'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { masterConnector } from '../../../src/redlock/wire/master-connector.ts'
import { sharedLookup, type Resolve } from '../../../src/redlock/wire/master-connector.ts'
import { startServer } from '../../../src/testing/index.ts'

const ADDRESSES: LookupAddress[] = [
  { address: '10.0.0.1', family: 4 },
  { address: '10.0.0.2', family: 4 },
]

/** A resolver whose answers the test gives. */
function slowResolver(): {
  readonly asked: string[]
  readonly lookUp: Resolve
  readonly answer: (error: NodeJS.ErrnoException | null) => void
} {
  const asked: string[] = []
  const open: Parameters<Resolve>[2][] = []
  return {
    asked,
    lookUp: (name, _options, answer) => {
      asked.push(name)
      open.push(answer)
    },
    answer: (error) => {
      for (const answer of open.splice(0)) answer(error, ADDRESSES)
    },
  }
}

test('shares one lookup of each name among all its callers', () => {
  const { asked, lookUp, answer } = slowResolver()
  const lookup = sharedLookup(lookUp)
  const heard: unknown[] = []
  for (let tries = 0; tries < 50; tries++) {
    lookup('lock-2', {}, (error, address) => heard.push(error?.message ?? address))
  }
  lookup('lock-3', { all: true }, (_error, addresses) => heard.push(addresses))
  expect(asked).toEqual(['lock-2', 'lock-3'])
  answer(null)
  expect(heard).toEqual([...Array.from({ length: 50 }, () => '10.0.0.1'), ADDRESSES])
  lookup('lock-2', {}, (error) => heard.push(error?.message))
  expect(asked).toEqual(['lock-2', 'lock-3', 'lock-2'])
  answer(new Error('getaddrinfo EAI_AGAIN lock-2'))
  expect(heard.at(-1)).toBe('getaddrinfo EAI_AGAIN lock-2')
})

test('a master is reached by its name, and one that is gone says so', async () => {
  await using server = await startServer()
  const reached = new Redis(server.port, 'localhost', { Connector: masterConnector(), family: 4 })
  expect(await reached.ping()).toBe('PONG')
  reached.disconnect()
  const nowhere = new Redis(1, '127.0.0.1', {
    Connector: masterConnector(),
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  nowhere.on('error', () => undefined)
  await expect(nowhere.ping()).rejects.toThrow()
  nowhere.disconnect()
})
