/** Recipes of docs/recipes.md that are not tested elsewhere, on real servers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { QueueEvents, type Job } from 'bullmq'
import { transform } from 'esbuild'
import { expect, test } from 'vitest'
import { LockedQueue, LockedWorker } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 1 })

/** The block of the page that begins with the name of this file. */
async function recipe(file: string): Promise<Record<string, unknown>> {
  const page = readFileSync(join(import.meta.dirname, '../../docs/recipes.md'), 'utf8')
  const [, code = ''] = page.split('```ts\n' + `// ${file}\n`)[1]?.match(/^([^]*?)^```/m) ?? []
  const compiled = await transform(code, { loader: 'ts', format: 'esm' })
  const bullmq = new URL('../../node_modules/bullmq/dist/cjs/index.js', import.meta.url).href
  const text = compiled.code.replace('"bullmq"', `'${bullmq}'`)
  return (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as Record<
    string,
    unknown
  >
}

interface Client {
  query(text: string, values?: readonly unknown[]): Promise<unknown>
  release(): void
}
type Charge = (pool: { connect(): Promise<Client> }) => (job: Job, token: string) => Promise<void>

test('a row lock: the job is done once, or put back while another has the row', async () => {
  const { charge } = (await recipe('row-lock.ts')) as { charge: Charge }
  await using database = new PGlite()
  await database.exec('CREATE TABLE accounts (id int PRIMARY KEY, balance int)')
  await database.exec('INSERT INTO accounts VALUES (1, 10)')
  let isTaken = false
  const released: string[] = []
  const client: Client = {
    query: (text, values) => {
      // One connection is all that this database has: another one's lock is its error.
      if (isTaken && text.includes('NOWAIT')) {
        return Promise.reject(Object.assign(new Error('could not obtain lock'), { code: '55P03' }))
      }
      return database.query(text, values === undefined ? undefined : [...values])
    },
    release: () => released.push('client'),
  }
  const delays: number[] = []
  const job = {
    data: { id: 1 },
    moveToDelayed: (at: number) => Promise.resolve(delays.push(at)),
  } as unknown as Job
  const run = charge({ connect: () => Promise.resolve(client) })
  await run(job, 'token')
  isTaken = true
  await expect(run(job, 'token')).rejects.toThrow('bullmq:movedToDelayed')
  expect(delays).toHaveLength(1)
  const { rows } = await database.query<{ balance: number }>('SELECT balance FROM accounts')
  expect(rows).toEqual([{ balance: 9 }])
  expect(released).toHaveLength(2)
})

test('a job that waits for another of its resource fails with its limit, and the line goes on', async () => {
  const redlock = await fixture.redlock()
  const own = { connection: { url: fixture.fleet.queue.url }, prefix: fixture.namespace }
  const queue = new LockedQueue('q', { ...own, resource: () => 'customer:42' })
  const events = new QueueEvents('q', own)
  await events.waitUntilReady()
  const ended: string[] = []
  const worker = new LockedWorker(
    'q',
    async ({ name }) => {
      if (name === 'first') {
        const second = await queue.add('second', {})
        await second.waitUntilFinished(events, 300)
      }
      ended.push(name)
    },
    { ...own, redlock, resource: () => 'customer:42' },
  )
  fixture.defer(() => Promise.all([worker.close(), queue.close(), events.close()]))
  await queue.add('first', {})
  await until('the second has run', () => Promise.resolve(ended.length > 0))
  expect(ended).toEqual(['second'])
  expect(await queue.getFailedCount()).toBe(1)
})
