/**
 * examples/nestjs with the package as it would be published: installed, compiled, run on real
 * servers.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Queue, QueueEvents } from 'bullmq'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { Redlock, silentLogger } from '../../src/index.ts'
import { useFleet } from '../fixtures.ts'
import { compileInto } from '../support/compiled.ts'
import { installIn } from '../support/npm-ci.ts'
import { Program } from '../workers/program.ts'

const INSTALL_LIMIT_MS = 240_000
vi.setConfig({ hookTimeout: 2 * INSTALL_LIMIT_MS })

const ROOT = join(import.meta.dirname, '..', '..')
const EXAMPLE = join(ROOT, 'examples', 'nestjs')
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
  for (const file of ['package.json', 'tsconfig.json', 'src', 'node_modules']) {
    // The symbolic links in it are npm's own and lead nowhere else.
    await cp(join(EXAMPLE, file), join(directory, file), {
      recursive: true,
      verbatimSymlinks: true,
    })
  }
  const installed = join(directory, 'node_modules', 'bullmq-redlock')
  await mkdir(installed)
  await cp(join(ROOT, 'package.json'), join(installed, 'package.json'))
  await compileInto(installed)
  // Types of Node, which the example has from nobody.
  await mkdir(join(directory, 'node_modules', '@types'), { recursive: true })
  await symlink(
    join(ROOT, 'node_modules', '@types', 'node'),
    join(directory, 'node_modules', '@types', 'node'),
  )
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [tsc, '-p', directory]).catch((error: unknown) => {
    throw new Error(String((error as { stdout?: unknown }).stdout))
  })
  return directory
}

beforeAll(async () => {
  obstacle = await installIn(EXAMPLE, INSTALL_LIMIT_MS)
  if (obstacle === undefined) app = await build()
  else console.log(`skipped: the NestJS example, because ${obstacle}`)
})
afterAll(async () => {
  if (app !== '') await rm(app, { recursive: true, force: true })
})

it('jobs of one customer run one at a time, others beside them, and it closes cleanly', async ({
  skip,
}) => {
  if (obstacle !== undefined) skip(obstacle)
  const { urls, queue: server } = fixture.fleet
  // The namespace and the longest lease that the example has by default.
  await using redlock = new Redlock({ masters: urls, logger: silentLogger })
  await redlock.bootstrap({ newFleet: true })
  const connection = { host: server.host, port: server.port }
  const queue = new Queue<{ customerId: number }, number>('charges', { connection })
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
  const ofFirst = program.out.filter((line) => /^ends \S+ customer:0 /.test(line))
  const fencing = ofFirst.map((line) => Number(line.split(' ')[3]))
  expect(fencing).toEqual([...fencing].sort((a, b) => a - b))
  expect(new Set(tokens).size).toBe(9)
  for (const { id = '' } of jobs) expect((await queue.getJob(id))?.attemptsMade).toBe(1)

  program.kill('SIGTERM')
  const ended = await program.end()
  expect(ended.code).toBe(0)
  expect(ended.out.at(-1)).toBe('closed')
  expect(ended.err).toEqual([])
  expect((await redlock.inspect('customer:0')).masters.map(({ holder }) => holder)).toEqual(
    Array(3).fill(undefined),
  )
})
