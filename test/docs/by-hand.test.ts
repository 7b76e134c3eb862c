/** The commands of CONTRIBUTING.md with which a reader looks at a line by hand find something. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'

const PAGE = new URL('../../CONTRIBUTING.md', import.meta.url)
const fixture = useFleet({ masters: 1 })

test('every command of "A line by hand" finds what it asks for', async () => {
  const [, section = ''] = /^## A line by hand$([^]*?)^## /m.exec(readFileSync(PAGE, 'utf8')) ?? []
  const commands = [...section.matchAll(/^\| [^|]+\| `([A-Z]+) ([^`]+)`/gm)]
  expect(commands).toHaveLength(14)

  const { namespace } = fixture
  const queue = fixture.lockedQueue<{ customer: number }>({
    resource: ({ customer }) => `customer:${customer}`,
    tenant: () => 'acme',
  })
  const redlock = await fixture.redlock()
  const gate = fixture.gate()
  fixture.lockedWorker<{ customer: number }>(
    async ({ data }) => {
      if (data.customer === 7) throw new Error('no such customer')
      await gate.passed
    },
    {
      redlock,
      resource: ({ data }) => `customer:${data.customer}`,
      concurrency: 2,
      onFailure: 'block',
    },
  )
  await queue.setRate('customer:42', { limit: 100, perMs: 1_000 })
  await queue.add('fails', { customer: 7 })
  await until('it holds its line', async () => (await queue.getFailedCount()) === 1)
  await queue.add('runs', { customer: 42 })
  await queue.add('sleeps', { customer: 42 })
  await until('one runs', async () => (await queue.getActiveCount()) === 1)
  redlock.acquire('customer:42', { waitMs: 60_000 }).catch(() => undefined)

  const queueRedis = fixture.redis()
  const [master = fixture.fleet.queue] = fixture.fleet.masters
  const masterRedis = fixture.redis(master)
  for (const [, command = '', rest = ''] of commands) {
    const isOfLock = rest.startsWith('redlock:')
    const redis = isOfLock ? masterRedis : queueRedis
    const args = rest
      .replace('bull:invoices:', `bull:${namespace}:`)
      .replace(/^redlock:/, `${namespace}:`)
      .split(' ')
    await until(`${command} ${rest} answers`, async () => {
      const answer = await redis.call(command, args)
      return Array.isArray(answer) ? answer.length > 0 : answer !== null && answer !== -2
    })
  }
})
