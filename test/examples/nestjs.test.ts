/**
 * examples/nestjs with the package as it would be published: installed, compiled, run on real
 * servers.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { QueueEvents } from 'bullmq'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { LockedQueue, Redlock, silentLogger } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { compileInto } from '../support/compiled.ts'
import { installIn } from '../support/npm-ci.ts'
import { Program } from '../workers/program.ts'

const INSTALL_LIMIT_MS = 240_000
vi.setConfig({ hookTimeout: 2 * INSTALL_LIMIT_MS })

const ROOT = join(import.meta.dirname, '..', '..')
const EXAMPLE = join(ROOT, 'examples', 'nestjs')
/** Where it is installed: outside of the repository, and there for the next run. */
const INSTALLED = join(tmpdir(), 'bullmq-redlock-nestjs')
const run = promisify(execFile)
const fixture = useFleet({ masters: 3 })

let obstacle: string | undefined
let app = ''

/**
 * The example in a directory of its own, with the package beside NestJS as an installation would
 * put it.
 */
async function build(): Promise<string> {
  const cache = join(ROOT, 'node_modules', '.cache')
  await mkdir(cache, { recursive: true })
  const directory = await mkdtemp(join(cache, 'nestjs-'))
  for (const file of ['package.json', 'tsconfig.json', 'src']) {
    await cp(join(EXAMPLE, file), join(directory, file), { recursive: true })
  }
  // The symbolic links in it are npm's own and lead nowhere else.
  await cp(join(INSTALLED, 'node_modules'), join(directory, 'node_modules'), {
    recursive: true,
    verbatimSymlinks: true,
  })
  const installed = join(directory, 'node_modules', 'bullmq-redlock')
  await mkdir(installed)
  await cp(join(ROOT, 'package.json'), join(installed, 'package.json'))
  await compileInto(installed)
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [tsc, '-p', directory]).catch((error: unknown) => {
    throw new Error(String((error as { stdout?: unknown }).stdout))
  })
  return directory
}

beforeAll(async () => {
  await mkdir(INSTALLED, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) {
    await cp(join(EXAMPLE, file), join(INSTALLED, file))
  }
  obstacle = await installIn(INSTALLED, INSTALL_LIMIT_MS)
  if (obstacle === undefined) app = await build()
  else console.log(`skipped: the NestJS example, because ${obstacle}`)
})
afterAll(async () => {
  if (app !== '') await rm(app, { recursive: true, force: true })
})

it('each customer in order, also when one fails; steps and reports once; it closes cleanly', async ({
  skip,
}) => {
  if (obstacle !== undefined) skip(obstacle)
  const { urls, queue: server } = fixture.fleet
  // The namespace and the longest lease that the example has by default.
  await using redlock = new Redlock({ masters: urls, logger: silentLogger })
  await redlock.bootstrap({ newFleet: true })
  const connection = { host: server.host, port: server.port }
  const queue = new LockedQueue<{ customerId: number }, number>('charges', {
    connection,
    resource: ({ customerId }) => `customer:${customerId}`,
  })
  const reports = new LockedQueue<{ month: string }, string>('reports', {
    connection,
    resource: ({ month }) => `report:${month}`,
  })
  fixture.defer(() => reports.close())
  const events = new QueueEvents('charges', { connection })
  fixture.defer(() => queue.close())
  fixture.defer(() => events.close())
  await events.waitUntilReady()

  const env = { BULLMQ_REDLOCK_MASTERS: urls.join(','), BULLMQ_REDLOCK_QUEUE: server.url }
  const program = new Program(join(app, 'dist', 'main.js'), [], env)
  fixture.defer(() => program[Symbol.asyncDispose]())
  await program.line(/^ready$/)
  const jobs = await queue.addBulk(
    Array.from({ length: 9 }, (_, index) => ({
      name: 'charge',
      data: { customerId: index % 3 },
      opts: { attempts: 2 },
    })),
  )
  const tokens = await Promise.all(jobs.map((job) => job.waitUntilFinished(events)))
  for (const { id = '' } of jobs) await program.line(new RegExp(`^ends ${id} `))

  const open = new Map<string, string>()
  let together = 0
  for (const line of program.out.filter((each) => /^(begins|ends) /.test(each))) {
    const [what = '', id = '', customer = ''] = line.split(' ')
    if (what === 'begins') {
      expect(open.get(customer), line).toBeUndefined()
      open.set(customer, id)
      together = Math.max(together, open.size)
    } else {
      expect(open.get(customer), line).toBe(id)
      open.delete(customer)
    }
  }
  expect(together).toBeGreaterThan(1)
  for (const customer of [0, 1, 2]) {
    const ends = program.out.filter((line) =>
      new RegExp(`^ends \\S+ customer:${customer} `).test(line),
    )
    const added = jobs.filter(({ data }) => data.customerId === customer).map(({ id }) => id)
    expect(ends.map((line) => line.split(' ')[1])).toEqual(added)
    const fencing = ends.map((line) => Number(line.split(' ')[3]))
    expect(fencing).toEqual([...fencing].sort((a, b) => a - b))
    // Those of other customers may be equal: a token is compared within its resource.
    const own = tokens.filter((_, nr) => jobs[nr]?.data.customerId === customer)
    expect(own).toEqual([...new Set(own)].sort((a, b) => a - b))
  }
  for (const { id = '', data } of jobs) {
    expect((await queue.getJob(id))?.attemptsMade).toBe(data.customerId === 2 ? 2 : 1)
  }

  const made = await reports.addBulk([1, 2, 3].map(() => ({ name: 'r', data: { month: '11' } })))
  await until('all have the report', async () => (await reports.getCompletedCount()) === 3)
  const results = await Promise.all(made.map(({ id = '' }) => reports.getJob(id)))
  expect(results.map((job) => job?.returnvalue)).toEqual(Array(3).fill('report of 11'))
  expect(program.out.filter((line) => line === 'makes report 11')).toHaveLength(1)

  program.kill('SIGTERM')
  const ended = await program.end()
  expect(ended.code).toBe(0)
  expect(ended.out.at(-1)).toBe('closed')
  expect(ended.err).toEqual([])
  expect((await redlock.inspect('customer:0')).masters.map(({ holder }) => holder)).toEqual(
    Array(3).fill(undefined),
  )
})

it("without the address of the queue's Redis it ends, and says what to set", async ({ skip }) => {
  if (obstacle !== undefined) skip(obstacle)
  const env = { BULLMQ_REDLOCK_MASTERS: fixture.fleet.urls.join(',') }
  await using program = new Program(join(app, 'dist', 'main.js'), [], env)
  const { code, err } = await program.end()
  expect(code).toBe(1)
  expect(err.join('\n')).toContain('Set BULLMQ_REDLOCK_QUEUE')
})
