/** What is logged of a job and of the masters, as lines that a program can read. */
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { Log, loggedChannel, type LineName } from '../../src/log.ts'
import { childLogger } from '../../src/logger.ts'
import { type LockedWorkerOptions, type Logger } from '../../src/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { rowsOf } from './doc-tables.ts'

const fixture = useFleet({ masters: 5 })

interface Line {
  readonly level: number
  readonly event?: LineName
  readonly msg: string
  readonly [field: string]: unknown
}

function lines(level: string): { readonly logger: Logger; readonly all: Line[] } {
  const all: Line[] = []
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      all.push(JSON.parse(chunk.toString()) as Line)
      done()
    },
  })
  return { logger: pino({ level }, sink), all }
}

async function runOneJob(options: Partial<LockedWorkerOptions>): Promise<void> {
  const redlock = await fixture.redlock()
  const queue = fixture.plainQueue()
  const worker = fixture.lockedWorker(
    async (_job, lease) => {
      lease.logger.info({ amount: 12 }, 'charged')
      await lease.step('charge', () => undefined)
    },
    { redlock, resource: () => 'customer:42', ...options },
  )
  const done = new Promise((resolve) => worker.once('completed', resolve))
  await queue.add('job', {}, { jobId: 'seven' })
  await done
}

test('a job leaves one line an event, each with its queue, job, resource and fencing token', async () => {
  const { logger, all } = lines('debug')
  await runOneJob({ logger })
  await until('the job has ended', () => all.some(({ event }) => event === 'job:ended'))
  const events = all.filter(({ event }) => event !== undefined)
  expect(events.map(({ event }) => event)).toEqual(['job:started', 'step:ended', 'job:ended'])
  const fencingToken = events[0]?.['fencingToken']
  expect(fencingToken).toBeGreaterThan(0)
  const ofJob = { queue: fixture.namespace, job: 'seven', resource: 'customer:42', fencingToken }
  for (const line of all) expect(line).toMatchObject(ofJob)
  expect(all.find(({ msg }) => msg === 'charged')).toMatchObject({ amount: 12, level: 30 })
  const documented = rowsOf('logging.md', 'Events')
  for (const { event, ...line } of events) {
    const [, , fields = ''] = documented.find(([name]) => name === event) ?? []
    const own = Object.keys(line).filter((name) => !PINOS.has(name))
    expect(own.sort()).toEqual(fields.split(' ').sort())
  }
})

const PINOS = new Set(['level', 'time', 'pid', 'hostname', 'msg'])

test('logs nothing at info level for a successful job by default', async () => {
  const silent = lines('info')
  await runOneJob({ logger: silent.logger })
  expect(silent.all.map(({ msg }) => msg)).toEqual(['charged'])
})

test('jobLogLevel: info logs it', async () => {
  const told = lines('info')
  await runOneJob({ logger: told.logger, jobLogLevel: 'info' })
  expect(told.all.map(({ event }) => event)).toContain('job:started')
})

test('a loss of the lease is a warning, and the masters that went are one each', async () => {
  const { logger, all } = lines('debug')
  const redlock = await fixture.redlock({ logger, leaseMs: 2_000 })
  const lease = await redlock.acquire('customer:1', { autoExtend: true })
  await Promise.all(fixture.fleet.masters.slice(0, 3).map((master) => master.kill()))
  await aborted(lease.signal)
  const { fencingToken } = lease
  const loss = { event: 'lease:lost', resource: 'customer:1', fencingToken, reason: 'lapsed' }
  expect(all).toContainEqual(expect.objectContaining(loss))
  const gone = all.filter(({ event }) => event === 'master:connecting')
  expect(new Set(gone.map(({ master }) => master)).size).toBe(3)
})

test('logs no password of a URL, in any field', () => {
  const { logger, all } = lines('debug')
  const detail = 'connect to redis://worker:hunter2@lock-1:6379 failed'
  loggedChannel(new Log(logger), undefined, []).tell('master:connecting', {
    master: 'rediss://:pw@lock-1',
    detail,
  })
  expect(JSON.stringify(all)).not.toMatch(/hunter2|pw@/)
  expect(all[0]).toMatchObject({ detail: 'connect to redis://***@lock-1:6379 failed' })
})

test('a logger without children gets the fields with every line; one that throws stops nothing', () => {
  const told: object[] = []
  const tell = (fields: object): void => {
    told.push(fields)
  }
  const plain: Logger = { debug: tell, info: tell, warn: tell, error: tell }
  childLogger(plain, { job: '7' }).warn({ amount: 1 }, 'charged')
  expect(told).toEqual([{ job: '7', amount: 1 }])
  const fail = (): never => {
    throw new Error('disk full')
  }
  const broken: Logger = { debug: fail, info: fail, warn: fail, error: fail }
  expect(() => {
    loggedChannel(new Log(broken), undefined, []).tell('breaker:open', { queue: 'q', reason: '' })
  }).not.toThrow()
})
