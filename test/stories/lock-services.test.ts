import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  LockedQueue,
  LockedWorker,
  silentLogger,
  type LockedWorkerOptions,
  type LockService,
} from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { aborted, until } from '../fixtures.ts'
import type { LockCluster } from '../../scripts/lock-servers/lock-cluster.ts'
import { KINDS, LOCK_SERVERS } from '../../scripts/lock-servers/lock-servers.ts'
import { describeService } from '../support/describe-service.ts'
import { openStory } from './lock-services.ts'
import { nodeArgs } from '../support/programs.ts'

interface Task {
  readonly customer: string
  readonly n: number
}

const resource = ({ data }: { readonly data: Task }): string => `customer:${data.customer}`

for (const kind of KINDS) {
  describeService(kind, `workers with leases of ${kind}`, () => {
    let redis: TestServer
    let service: LockCluster
    let name = ''
    let tests = 0
    const closers: (() => Promise<unknown>)[] = []

    beforeAll(async () => {
      ;[redis, service] = await Promise.all([
        startServer({ name: 'queue' }),
        LOCK_SERVERS[kind].start(1),
      ])
    })
    afterEach(async () => {
      for (const close of closers.splice(0).reverse()) await close()
    })
    afterAll(async () => {
      await redis.close()
      await service.close()
    })

    function queue(): LockedQueue<Task> {
      name = `jobs-${tests++}`
      const opened = new LockedQueue<Task>(name, {
        connection: { url: redis.url },
        resource: (data) => resource({ data }),
      })
      opened.on('error', () => undefined)
      closers.push(() => opened.close())
      return opened
    }

    async function locks(): Promise<LockService> {
      const opened = await openStory(service.address)
      closers.push(() => opened.close())
      return opened
    }

    async function worker(
      processor: ConstructorParameters<typeof LockedWorker<Task>>[1],
      options: Partial<LockedWorkerOptions<Task>> = {},
    ): Promise<LockedWorker<Task>> {
      const opened = new LockedWorker<Task>(name, processor, {
        ...{ connection: { url: redis.url }, redlock: await locks(), resource },
        ...{ logger: silentLogger, concurrency: 4, ...options },
      })
      opened.on('error', () => undefined)
      closers.push(() => opened.close())
      return opened
    }

    async function add(jobs: LockedQueue<Task>, customers: string, each: number): Promise<void> {
      for (let n = 0; n < each; n++) {
        for (const customer of customers) {
          await jobs.add('task', { customer, n }, { attempts: 3 })
        }
      }
    }

    test('keep the order of each line, one job at a time, with increasing tokens', async () => {
      const done: { customer: string; n: number; token: number }[] = []
      const running = new Set<string>()
      let overlaps = 0
      const jobs = queue()
      await add(jobs, 'abc', 8)
      const run: Parameters<typeof worker>[0] = async ({ data }, { fencingToken }) => {
        if (running.has(data.customer)) overlaps++
        running.add(data.customer)
        await delay(2)
        running.delete(data.customer)
        done.push({ ...data, token: fencingToken })
      }
      await worker(run)
      await worker(run)
      await until('all are done', () => done.length === 24)
      expect(overlaps).toBe(0)
      for (const customer of 'abc') {
        const line = done.filter((one) => one.customer === customer)
        expect(line.map(({ n }) => n)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
        const tokens = line.map(({ token }) => token)
        expect([...new Set(tokens)].sort((a, b) => a - b)).toEqual(tokens)
      }
    })

    test('continue in order after kill -9', async () => {
      const jobs = queue()
      await add(jobs, 'a', 3)
      const child = spawn(
        process.execPath,
        [
          ...nodeArgs(join(import.meta.dirname, 'lock-services-child.ts')),
          ...[service.address, redis.url, name],
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      )
      const [said] = (await once(child.stdout, 'data')) as [Buffer]
      const [first = 0, token = 0] = said.toString().split(' ').map(Number)
      expect(first).toBe(0)
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      const done: number[] = []
      const tokens: number[] = []
      await worker(({ data }, { fencingToken }) => {
        done.push(data.n)
        tokens.push(fencingToken)
        return Promise.resolve()
      })
      await until('all are done', () => done.length === 3)
      expect(done).toEqual([0, 1, 2])
      expect(Math.min(...tokens)).toBeGreaterThan(token)
    })

    test('share one result, and store that of a step over a retry', async () => {
      let [runs, steps] = [0, 0]
      const jobs = queue()
      const run: Parameters<typeof worker>[0] = async (job, lease) => {
        runs++
        const value = await lease.step('once', () => ++steps)
        if (job.attemptsMade === 0) throw new Error('try again')
        return value
      }
      const finished: unknown[] = []
      await add(jobs, 'd', 5)
      const one = await worker(run, { dedupe: { resultTtlMs: 60_000 }, checkpoints: true })
      one.on('completed', (_job, result: unknown) => finished.push(result))
      await until('all are done', () => finished.length === 5)
      expect(steps).toBe(1)
      expect(runs).toBe(2)
      expect(finished).toEqual([1, 1, 1, 1, 1])
    })

    test('drain requeues an unfinished job, and another worker completes it', async () => {
      const jobs = queue()
      await add(jobs, 'e', 2)
      let started = false
      const slow = await worker(async (_job, { signal }) => {
        started = true
        throw (await aborted(signal)) as Error
      })
      await until('it has started', () => started)
      await slow.drain({ timeoutMs: 50 })
      const done: number[] = []
      await worker(({ data }) => {
        done.push(data.n)
        return Promise.resolve()
      })
      await until('both are done', () => done.length === 2)
      expect(done).toEqual([0, 1])
    })
  })
}
