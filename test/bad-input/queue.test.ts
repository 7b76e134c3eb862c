/**
 * A queue whose jobs cannot be named, or whose options are wrong: the caller is told, and nothing
 * is added.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LockedQueue, ResourceError } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { assertNoLeaks } from '../support/leaks.ts'

assertNoLeaks()
let server: TestServer

beforeAll(async () => {
  server = await startServer({ name: 'queue' })
})

afterAll(async () => {
  await server.close()
})

const connection = (): { host: string; port: number } => ({ host: server.host, port: server.port })

it.each([
  ['resource', undefined, 'a function', '`undefined`'],
  ['resource', 'customer:1', 'a function', "`'customer:1'` (string)"],
  ['redlock', {}, 'absent: a LockedQueue takes no locks', '`true`'],
  ['maxLength', 0, 'an integer >= 1', '`0`'],
  ['whenFull', 'wait', "one of 'refuse', 'drop-oldest', 'drop-newest'", "`'wait'`"],
])('an option `%s` of %o', (option, value, expected, got) => {
  const options = { connection: connection(), resource: () => 'r', [option]: value }
  const make = (): unknown => new LockedQueue('q', options)
  expect(make).toThrow(TypeError)
  expect(make).toThrow(`Expected \`${option}\` to be ${expected}`)
  expect(make).toThrow(got)
})

it.each([
  [{}, /Expected `maxLength` to be a number, because `whenFull` is set/],
  [
    { maxLength: 5, within: 'priority' },
    /Expected `whenFull` to be 'refuse' with `within: 'priority'`/,
  ],
] as const)('refuses to drop the oldest job with %o', (more, message) => {
  const whenFull = 'drop-oldest'
  const options = { connection: connection(), resource: () => 'r', whenFull, ...more } as const
  expect(() => new LockedQueue('q', options)).toThrow(message)
})

it.each(['keyPrefix', 'stringNumbers'])('refuses a connection with %s', (name) => {
  const options = { connection: { ...connection(), [name]: 'app:' }, resource: () => 'r' }
  const message = `Expected \`connection.${name}\` to be absent`
  expect(() => new LockedQueue('q', options)).toThrow(message)
})

it.each([
  ['recource', 'Is it `resource`?'],
  ['defaultJobOption', 'Is it `defaultJobOptions`?'],
  ['leaseMs', 'There are resource, slots, within, maxWaitMs'],
])('refuses an option that does not exist: %s', (name, hint) => {
  const options = { connection: connection(), resource: () => 'r', [name]: 5_000 }
  const message = `There is no option \`${name}\`. ${hint}`
  expect(() => new LockedQueue('q', options)).toThrow(message)
})

it('refuses a call without options', () => {
  const make = (): unknown => new LockedQueue('q', undefined as never)
  expect(make).toThrow('Expected `options` to be an object with `connection` and `resource`')
})

interface Data {
  readonly name?: unknown
}

it.each([
  ['nothing', undefined, 'returned undefined'],
  ['a number', 42, 'returned a number'],
  ['an empty list', [], 'returned an empty list'],
  ['too many', Array.from({ length: 65 }, (_, nr) => `r${nr}`), 'returned 65 names, more than 64,'],
  ['a promise', 'promise', 'returned a promise'],
])(
  'a resource that names %s: neither the job, its batch nor its scheduler is added',
  async (_what, name, problem) => {
    const queue = new LockedQueue<Data>('q', {
      connection: connection(),
      resource: ({ name: named }) => (named === 'promise' ? Promise.resolve('r') : named) as string,
    })
    const refused = [
      queue.add('charge', { name }),
      queue.addBulk([
        { name: 'charge', data: { name: 'customer:1' } },
        { name: 'charge', data: { name } },
      ]),
      queue.upsertJobScheduler('s', { every: 60_000 }, { data: { name } }),
    ]
    for (const call of refused) {
      const error: unknown = await call.catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(ResourceError)
      expect(String(error)).toContain(`\`resource\` ${problem}`)
      expect(String(error)).toContain('it must return a string of 1 to 512 characters')
    }
    const counts = await queue.getJobCounts()
    expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(0)
    await queue.close()
  },
)

it.each([
  ['rate', null, '`rate` to be an object with `limit` and `perMs`, got `null`'],
  ['rate', NaN, '`rate` to be an object with `limit` and `perMs`, got `NaN`'],
  ['rate', 'promise', '`rate` to be an object with `limit` and `perMs`, got a promise'],
  ['slots', 'promise', '`slots` to be an integer from 1 to 1000, got a promise'],
  ['slots', new Map([['customer:1', 2]]), '`slots` to be an integer from 1 to 1000, got a value'],
  [
    'tenant',
    'promise',
    '`tenant` to be a function that returns 1 to 512 characters, got a promise',
  ],
  ['weight', 'promise', '`weight` to be a number from 0.01 to 1000, got a promise'],
])('a %s of a job that is %s: the job is not added', async (option, value, problem) => {
  const named = (): unknown => (value === 'promise' ? Promise.reject(new Error('late')) : value)
  const queue = new LockedQueue('q', {
    connection: connection(),
    resource: () => 'customer:1',
    [option]: named,
  })
  const added = queue.add('charge', {})
  await expect(added).rejects.toThrow(TypeError)
  await expect(added).rejects.toThrow(problem)
  expect(await queue.count()).toBe(0)
  await queue.close()
})
