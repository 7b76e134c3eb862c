/** Names that nest, and names with odd characters: what belongs to one is never another's. */
import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { LockedWorker } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 1 })

interface Data {
  readonly resource: string
}
type Add = readonly [resource: string, jobId?: string]

interface Place {
  readonly prefix?: string
  readonly name?: string
}

/** Adds jobs, runs them, and returns the ids of each resource in the order of their ends. */
async function runAll(
  adds: readonly Add[],
  { prefix = 'bull', name = fixture.namespace }: Place = {},
): Promise<ReadonlyMap<string, readonly string[]>> {
  const connection = { url: fixture.fleet.queue.url }
  const options = { connection, prefix, resource: (data: Data): string => data.resource }
  const queue = fixture.lockedQueue<Data>(options, name)
  for (const [resource, jobId] of adds) {
    await queue.add('job', { resource }, jobId === undefined ? {} : { jobId })
  }
  const ended = new Map<string, string[]>()
  const errors: unknown[] = []
  const running = new Set<string>()
  let count = 0
  const worker = fixture.lockedWorker<Data>(
    async ({ id = '', data: { resource } }) => {
      expect(running.has(resource)).toBe(false)
      running.add(resource)
      await new Promise((resolve) => setTimeout(resolve, 2))
      running.delete(resource)
      ended.set(resource, [...(ended.get(resource) ?? []), id])
      count++
    },
    {
      ...{ connection, prefix, concurrency: 10, redlock: await fixture.redlock() },
      resource: (job) => job.data.resource,
    },
    name,
  )
  worker.on('error', (error) => errors.push(error))
  worker.on('failed', (_job, error) => errors.push(error))
  await until('all have ended', () => count + errors.length >= adds.length)
  expect(errors).toEqual([])
  return ended
}

const times = (count: number, ...names: readonly string[]): readonly Add[] =>
  names.flatMap((name) => Array.from({ length: count }, (): Add => [name]))

it.each(['line', 'rate', 'ready-jobs', 'result'])(
  'a job whose id is the name of a key of ours (%s) is an ordinary job',
  async (kind) => {
    const id = `redlock:${kind}:customer`
    const adds = [...times(3, 'customer'), ['customer', id], ...times(3, 'customer')] as const
    const ended = await runAll(adds)
    expect(ended.get('customer')).toEqual(['1', '2', '3', id, '5', '6', '7'])
  },
)

it('resources with any characters have a line each, in order', async () => {
  const names = ['a', 'a:b', 'a b', 'a{b}c', '{', '*', '[a-z]?', '%d+', 'ü–漢😀', 'a"b\\c', 'a\nb']
  const more = ['a#2', '__proto__', 'toString', ' ', '["a"]', 'a\0b', 'line:a', 'x'.repeat(512)]
  const ended = await runAll(times(3, ...names, ...more))
  expect(ended.size).toBe(names.length + more.length)
  for (const ids of ended.values()) expect(ids).toEqual([...ids].sort((a, b) => +a - +b))
})

it('jobs with ids of any characters keep their order', async () => {
  const ids = ['a b', '5 7', 'ü', '{', '*', '%d', 'a"b', '-', ' x', 'x ', 'a\nb', 'redlock']
  const ended = await runAll(ids.map((id): Add => ['same', id]))
  expect(ended.get('same')).toEqual(ids)
})

it.each([
  ['in the keys of a line', 'redlock', 'line', 'wait'],
  ['with the name of our keys', undefined, 'redlock', 'meta'],
])('a queue %s of another queue shares nothing with it', async (_what, part, name, resource) => {
  const outer = { prefix: fixture.namespace, name: 'q' }
  const prefix = [fixture.namespace, 'q', ...(part === undefined ? [] : [part])].join(':')
  const connection = { url: fixture.fleet.queue.url }
  const options = { connection, prefix: outer.prefix, resource: () => resource }
  const waiting = fixture.lockedQueue(options, outer.name)
  for (const data of [1, 2, 3]) await waiting.add('job', { data })
  await runAll([...times(3, 'a', 'wait'), ['a', 'limits'], ['a', 'seq']], { prefix, name })
  expect(await waiting.getJobCountByTypes('waiting', 'delayed')).toBe(3)
})

it('a queue whose keys are keys of the locks is refused', async () => {
  const namespace = `n${randomBytes(4).toString('hex')}`
  const redlock = await fixture.redlock({ namespace })
  const worker = (prefix: string, name: string) => (): LockedWorker =>
    new LockedWorker(name, () => Promise.resolve(), {
      ...{ connection: { url: fixture.fleet.queue.url }, autorun: false, redlock, prefix },
      resource: () => 'wait',
    })
  expect(worker(namespace, 'lease')).toThrow(/Expected `prefix` to be another prefix or queue name/)
  expect(worker(`${namespace}:fence`, 'q')).toThrow(TypeError)
  const other = worker('bull', 'lease')()
  await other.close()
})
