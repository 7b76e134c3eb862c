/** The commands around jobs: `work`, `why`, and `inspect` with a line. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Queue } from 'bullmq'
import { beforeEach, describe, expect, it } from 'vitest'
import type { LockedQueue } from '../../../src/index.ts'
import { LockedWorker, type LockedQueueOptions } from '../../../src/index.ts'
import { until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { Program } from '../../workers/program.ts'
import { cli, runningCli, type Said } from './run-cli.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 3 })

const LONG = { leaseMs: 20_000, maxLeaseMs: 20_000 }
/** Also the queue's name, so that tests do not meet. */
let queue = ''
let directory = ''
beforeEach(async () => {
  queue = `q-${fixture.namespace}`
  directory = await mkdtemp(join(tmpdir(), 'bullmq-redlock-cli-'))
  const used = directory
  fixture.defer(() => rm(used, { recursive: true }))
})

const env = (): NodeJS.ProcessEnv => ({ ...fixture.env, QUEUE: queue })
const say = (...args: readonly string[]): Promise<Said> => cli(args, { env: env() })

interface Data {
  readonly customerId: number
  readonly untilStopped?: boolean
  readonly isDeaf?: boolean
}

function openQueue(options: Partial<LockedQueueOptions<Data>> = {}): LockedQueue<Data> {
  return fixture.lockedQueue<Data>(
    {
      resource: ({ customerId }) => `customer:${customerId}`,
      ...options,
    },
    queue,
  )
}

function openPlain(): Queue {
  return fixture.plainQueue(queue)
}

describe('why and inspect', () => {
  it('finds the lines of a job without the function that names its resource', async () => {
    await fixture.redlock(LONG)
    const job = { name: 'post', data: { customerId: 1 } }
    const [, second] = await openQueue().addBulk([job, job])
    const why = await say('why', queue, second?.id ?? '')
    expect(why.out).toContain('is in line for `customer:1` and waits for its turn: 1 ahead of it')
    const named = await say('why', queue, second?.id ?? '', '--resource', 'customer:1')
    expect(named.out).toBe(why.out)
  })

  it('with --json, also the warning that no masters are given is a JSON line', async () => {
    const plain = openPlain()
    const job = await plain.add('post', {})
    const { BULLMQ_REDLOCK_MASTERS: _, ...withoutMasters } = env()
    const why = await cli(['why', queue, job.id ?? '', '--json'], { env: withoutMasters })
    expect(JSON.parse(why.err)).toMatchObject({ event: 'warning' })
  })
})

describe('a line that a failed job holds', () => {
  it('retry runs it again; skip lets the line go on', async () => {
    const locked = openQueue()
    const charge = ({ data }: { data: Data }): Promise<void> =>
      data.customerId === 1 ? Promise.reject(new Error('card declined')) : Promise.resolve()
    const worker = new LockedWorker<Data>(queue, charge, {
      connection: { url: fixture.fleet.queue.url },
      redlock: await fixture.redlock(),
      resource: ({ data }) => `customer:${data.customerId}`,
      onFailure: 'block',
    })
    await locked.add('post', { customerId: 2 })
    await until('one is done', async () => (await locked.getCompletedCount()) === 1)
    const [first] = await locked.addBulk([
      { name: 'post', data: { customerId: 1 } },
      { name: 'post', data: { customerId: 1 } },
    ])
    await until('it failed', async () => (await locked.getFailedCount()) === 1)
    const id = first?.id ?? ''
    expect(await say('retry', queue, id)).toMatchObject({ code: 0 })
    await until('it failed again', async () => {
      const job = await locked.getJob(id)
      return job?.attemptsMade === 2 && (await job.isFailed())
    })
    const absent = await say('retry', queue, 'nobody')
    expect(absent).toMatchObject({ code: 1 })
    expect(absent.out).toMatch(/^There is no job nobody in queue/)
    expect(await say('skip', queue, id)).toMatchObject({ code: 0 })
    await until('the next one ran', async () => (await locked.getFailedCount()) === 2)
    const again = await say('skip', queue, id)
    expect(again).toMatchObject({ code: 1 })
    expect(again.out).toContain(`Job ${id} holds no line: it is failed. See \`bullmq-redlock why`)
    await worker.close()
  })
})

it('a command that is shown runs as it is shown, whatever flags were given', async () => {
  const { url } = fixture.fleet.queue
  const prefix = "it's {a}"
  const resource = ({ customerId }: Data): string => `customer:${customerId}`
  const locked = fixture.lockedQueue<Data>({ resource, prefix }, queue)
  const { id = '' } = await locked.add('post', { customerId: 1 })
  const given = ['--queue-redis', url, '--prefix', prefix]
  const { out } = await cli(['retry', queue, id, ...given])
  const [, shown = ''] = out.split('`')
  const words = execFileSync('sh', ['-c', `printf '%s\\n' ${shown}`], { encoding: 'utf8' })
  const why = await cli(words.trimEnd().split('\n').slice(1))
  expect(why.out).toContain(`Job ${id} (waiting) is first in line for \`customer:1\``)
})

it('the name of another key of the queue is no job', async () => {
  await openQueue().add('post', { customerId: 1 })
  for (const id of ['wait', 'meta', 'id', 'events']) {
    for (const command of ['why', 'retry', 'skip']) {
      const said = await say(command, queue, id)
      expect(said).toMatchObject({ code: 1 })
      expect(said.out).toContain(`There is no job ${id} in queue`)
    }
    const cancelled = await say('cancel', queue, '--job', id, '--yes', '--json')
    expect(cancelled.json()).toMatchObject({ jobs: [{ jobId: id, outcome: 'missing' }] })
  }
})

describe('a delay', () => {
  const why = async (id: string | undefined): Promise<string> =>
    (await say('why', queue, id ?? '')).out

  it('of a job that has no place yet: why says until when, and when it is over', async () => {
    const locked = openQueue()
    const job = await locked.add('post', { customerId: 1 }, { delay: 60_000 })
    // From the moment in which the queue's Redis had it.
    const addedBy = Date.now()
    const [, end = ''] =
      /\(delayed\) waits for its delay or backoff to end, at (\S+Z)/.exec(await why(job.id)) ?? []
    expect(Date.parse(end)).toBeGreaterThanOrEqual(job.timestamp + 60_000)
    expect(Date.parse(end)).toBeLessThanOrEqual(addedBy + 60_000)
    const due = await locked.add('post', { customerId: 1 }, { delay: 1 })
    const waits = '(delayed) waits for'
    expect(await why(due.id)).toContain(
      `${waits} a quorum of the lock masters: 0 of 3 masters vote`,
    )
    await fixture.redlock()
    expect(await why(due.id)).toMatch(/\(delayed\) waits for a free worker\. It was due at \S+Z\./)
  })

  it('that is over, of a job in line: why and inspect say that it waits for a worker', async () => {
    const locked = openQueue()
    const worker = new LockedWorker<Data>(queue, () => Promise.reject(new Error('declined')), {
      ...{ connection: { url: fixture.fleet.queue.url }, redlock: await fixture.redlock(LONG) },
      resource: ({ data }) => `customer:${data.customerId}`,
    })
    const failed = once(worker, 'failed')
    const job = await locked.add('post', { customerId: 1 }, { attempts: 2, backoff: 500 })
    await failed
    await worker.close()
    await until('it is due', async () => (await locked.getDelayedCount(Date.now())) === 1)
    expect(await why(job.id)).toContain(
      '(delayed) is first in line for `customer:1` and waits for a',
    )
    expect(await why(job.id)).toContain('waits for a free worker.')
    const inspected = await say('inspect', 'customer:1')
    expect(inspected.out).toMatch(/delayed +\S+Z +a free worker/)
  })
})

describe('work', () => {
  const MODULE = 'test/tools/cli/ledger-worker-child.ts'

  it('runs a module, says that it is alive and ready, and drains on SIGTERM', async () => {
    await fixture.redlock(LONG)
    const locked = openQueue()
    await using working = runningCli(
      ['work', MODULE, '--health-port', '0', '--health-host', '127.0.0.1', '--drain-ms', '200'],
      env(),
    )
    const [, base = ''] = await working.line(/health at (http:\/\/[\d.:]+)\/healthz/)
    const status = async (path: string): Promise<number> => (await fetch(base + path)).status
    expect(await status('/healthz')).toBe(200)
    await until('it is ready', async () => (await status('/readyz')) === 200)
    expect(await status('/nothing')).toBe(404)
    expect(await (await fetch(`${base}/readyz`)).json()).toEqual({
      ...{ status: 'ready', workers: [{ queue, state: 'running' }] },
      masters: { voting: 3, quorum: 2 },
    })
    const short = await locked.add('post', { customerId: 1 })
    await working.line(new RegExp(`finished ${short.id ?? ''}$`))
    const long = await locked.add('post', { customerId: 2, untilStopped: true })
    await working.line(new RegExp(`started ${long.id ?? ''} \\d+`))
    working.kill('SIGTERM')
    const ended = await working.end()
    expect(ended.code).toBe(0)
    expect(ended.err.join('\n')).toContain('drained')
    expect(await long.getState()).not.toBe('active')
    expect(await long.isFailed()).toBe(false)
    const leases = await say('leases')
    expect(leases.out).toBe('no leases\n')
  })

  it('is ready before, and after a resize that it was told of', async () => {
    await fixture.redlock(LONG)
    const { urls } = fixture.fleet
    const first = ['--master', urls[0] ?? '']
    await using working = runningCli(
      [
        ...['work', MODULE, '--health-port', '0', '--health-host', '127.0.0.1', ...first],
        ...urls.flatMap((url) => ['--previous-master', url]),
      ],
      env(),
    )
    const [, base = ''] = await working.line(/health at (http:\/\/[\d.:]+)\/healthz/)
    const masters = async (): Promise<unknown> => {
      const answer = await fetch(`${base}/readyz`)
      return answer.status === 200 && ((await answer.json()) as { masters: unknown }).masters
    }
    const is = async (wanted: object): Promise<boolean> =>
      JSON.stringify(await masters()) === JSON.stringify(wanted)
    await until('it is ready', () => is({ voting: 3, quorum: 2 }))
    expect(await say('resize', '--to', urls[0] ?? '', '--yes')).toMatchObject({ code: 0 })
    await until('it has followed', () => is({ voting: 1, quorum: 1 }))
    working.kill('SIGTERM')
    expect((await working.end()).code).toBe(0)
  })

  it('is not ready while masters that only its module knows grant nothing', async () => {
    await fixture.redlock(LONG)
    const { urls, masters } = fixture.fleet
    const { BULLMQ_REDLOCK_MASTERS: own, BULLMQ_REDLOCK_NAMESPACE: namespace, ...others } = env()
    await using working = runningCli(
      ['work', MODULE, '--health-port', '0', '--health-host', '127.0.0.1'],
      { ...others, OWN_MASTERS: urls.join(), OWN_NAMESPACE: namespace },
    )
    expect(own).toBe(urls.join())
    const [, base = ''] = await working.line(/health at (http:\/\/[\d.:]+)\/healthz/)
    const ready = async (): Promise<string> => {
      const answer = await fetch(`${base}/readyz`)
      return `${answer.status} ${await answer.text()}`
    }
    await until('it is ready', async () => (await ready()).startsWith('200'))
    await Promise.all(masters.slice(1).map((master) => master.freeze()))
    await until('it is not', async () => /^503 .*Fewer than 2 of 3/.test(await ready()))
    await Promise.all(masters.slice(1).map((master) => master.thaw()))
    await until('it is again', async () => (await ready()).startsWith('200'))
    working.kill('SIGTERM')
    expect((await working.end()).code).toBe(0)
  })

  it('ends with 1 where a processor ignored its signal', async () => {
    await fixture.redlock(LONG)
    await using working = runningCli(['work', MODULE, '--drain-ms', '200'], env())
    const { id = '' } = await openQueue().add('post', { customerId: 1, isDeaf: true })
    await working.line(new RegExp(`started ${id} \\d+`))
    working.kill('SIGTERM')
    const ended = await working.end()
    expect(ended.code).toBe(1)
    expect(ended.err).toContain('some workers did not end in time')
  })

  it('a port that is taken: says so, and nothing else', async () => {
    await fixture.redlock(LONG)
    const taken = fixture.closing(createServer().listen(0, '127.0.0.1'))
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const args = ['work', MODULE, '--health-host', '127.0.0.1', '--health-port', String(port)]
    await using working = runningCli(args, env())
    const { code, err } = await working.end()
    expect({ code, err }).toEqual({
      code: 2,
      err: [`bullmq-redlock: --health-port ${port} is taken: give another, or 0`],
    })
  })

  it.each([
    ['module.exports = worker'],
    ['module.exports = { worker }'],
    ["Object.defineProperty(exports, '__esModule', { value: true }); exports.default = [worker]"],
    ["Object.defineProperty(exports, '__esModule', { value: true }); exports.worker = worker"],
  ])('runs a module of CommonJS: %s', async (exporting) => {
    const path = join(directory, 'worker.cjs')
    const does = 'drain: async () => true, isRunning: () => true, on() {}'
    await writeFile(path, `const worker = { name: 'invoices', ${does} }\n${exporting}\n`)
    await using program = new Program('src/tools/cli/main.ts', ['work', path], env())
    await program.line(/works on invoices/)
    program.kill('SIGTERM')
    expect((await program.end()).code).toBe(0)
  })

  it('refuses a missing module, or one without a worker, and says what to export', async () => {
    const absent = await say('work', 'nothing.js')
    expect(absent).toMatchObject({ code: 2 })
    expect(absent.err).toContain('there is no module nothing.js')
    const folder = await say('work', 'workers')
    expect(folder).toMatchObject({ code: 2 })
    expect(folder.err).toContain('there is no module workers')
    const path = join(directory, 'none.mjs')
    await writeFile(path, 'export const something = 1\n')
    const none = await say('work', path)
    expect(none.err).toContain('exports none of `default`, `worker`, `workers`')
    const other = join(directory, 'other.mjs')
    await writeFile(other, 'export default 1\n')
    expect((await say('work', other)).err).toContain('expected a LockedWorker')
  })
})

describe('pause, resume, limit and limits', () => {
  it('apply to every process, and why shows them', async () => {
    await fixture.redlock()
    const locked = openQueue()
    const [job] = await locked.addBulk([{ name: 'post', data: { customerId: 1 } }])
    const set = '--slots 4 --rate 100/1000 --burst 10'.split(' ')
    const limit = ['limit', queue, 'customer:2', ...set]
    const [paused] = await Promise.all([
      say('pause', queue, 'customer:1', '--reason', 'migration'),
      say(...limit, '--for-ms', '600000'),
    ])
    expect(paused.code).toBe(0)
    expect(paused.out).toMatch(/^customer:1: paused \(by .+@.+ at .+: migration\)\n$/)
    expect(await locked.getLimits('customer:2')).toMatchObject({
      slots: { slots: 4 },
      rate: { limit: 100, perMs: 1_000, burst: 10 },
    })
    const [why, all] = await Promise.all([say('why', queue, job?.id ?? ''), say('limits', queue)])
    expect(why.out).toMatch(/waits for its resource to be resumed by .+ paused it .+migration/)
    expect(all.out).toMatch(/customer:1 .*paused/)
    expect(all.out).toMatch(/customer:2 .*4 slots until .*; 100 starts in 1000 ms, burst 10 until/)
    const [some, pattern] = await Promise.all([
      say('limits', queue, '--json'),
      say('limit', queue, 'customer:*', '--slots', '3'),
    ])
    expect(some.json()).toMatchObject({
      limits: [{ resource: 'customer:1' }, { resource: 'customer:2' }],
    })
    expect(pattern.code).not.toBe(0)
    expect(pattern.err).toContain('the name of one resource, not a pattern')
    await say('limit', queue, 'customer:2', '--reset', 'slots')
    expect((await locked.getLimits('customer:2')).slots).toBeUndefined()
    const [resumed] = await Promise.all([
      say('resume', queue, 'customer:1'),
      say('limit', queue, 'customer:2', '--reset', 'rate'),
    ])
    expect(resumed.out).toContain('no limits are set')
    expect(await locked.getLimits('customer:1')).toEqual({})
    expect((await locked.getLimits('customer:2')).rate).toBeUndefined()
  }, 180_000)

  it('why names the tenant whose turn a job waits for', async () => {
    await fixture.redlock()
    const locked = openQueue({ tenant: () => 'acme', weight: () => 2 })
    const job = await locked.add('post', { customerId: 1 })
    const why = await say('why', queue, job.id ?? '')
    expect(why.out).toContain(
      'waits for a free worker, and the turn of its tenant `acme`, of weight 2',
    )
  })

  it('refuse what they cannot read', async () => {
    const wrong = [
      ...['--rate fast', '--burst 2', '--slots 0', '--slots 99999', '--reset slots --slots 2'],
      ...['--reset rate --rate 1/1000', '--reset x', '--for-ms 1000'],
    ].map((flags) => flags.split(' '))
    const runs = wrong.map((flags) => say('limit', queue, 'customer:1', ...flags))
    expect((await Promise.all(runs)).map(({ code }) => code)).toEqual(wrong.map(() => 2))
  }, 180_000)
})

it.each([
  ['pause', 'invoices', 'customer:1'],
  ['resume', 'invoices', 'customer:1'],
  ['limit', 'invoices', 'customer:1'],
  ['limits', 'invoices'],
  ['cancel', 'invoices', '--job', '1', '--yes'],
  ['leave-lines', 'invoices', '--yes'],
])("%s names the queue's Redis that refuses it", async (...args) => {
  const url = new URL(fixture.fleet.queue.url)
  url.username = 'nobody'
  url.password = 'geheim'
  const said = await say(...args, '--queue-redis', url.href)
  expect(said.code).toBe(1)
  expect(said.err).toMatch(/the queue's Redis 127\.0\.0\.1:\d+ does not answer: WRONGPASS/)
  expect(said.err).not.toContain('geheim')
})

describe('a queue that does not exist', () => {
  it.each([
    ['cancel', '--resource', 'customer:1', '--yes'],
    ['leave-lines', '--yes'],
    ['why', '1'],
  ])('%s names it, and ends with 1', async (command, ...args) => {
    const locked = openQueue()
    await locked.add('post', { customerId: 1 })
    const said = await say(command, 'invoces', ...args)
    expect(said.code).toBe(1)
    expect(said.out + said.err).toContain('There is no queue `invoces` with the prefix `bull`')
  })
})

describe('cancel', () => {
  it('fails the jobs of a resource, and asks first', async () => {
    const locked = openQueue()
    const data = { customerId: 1 }
    await locked.addBulk(Array.from({ length: 3 }, () => ({ name: 'post', data })))
    const all = ['cancel', queue, '--resource', 'customer:1', '--reason', 'runaway']
    const [asked, neither] = await Promise.all([say(...all), say('cancel', queue, '--yes')])
    expect([asked.code, neither.code]).toEqual([2, 2])
    const done = await say(...all, '--yes')
    expect(done.code).toBe(0)
    expect(done.out).toMatch(/^JOB +OUTCOME\n(\d +failed\n){3}\n3 failed\n$/)
    expect((await locked.getFailed()).map(({ failedReason }) => failedReason)).toEqual(
      Array.from({ length: 3 }, () => expect.stringMatching(/cancelled: runaway$/) as string),
    )
  }, 180_000)
})
