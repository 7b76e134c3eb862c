import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../workers/embedded-postgres.ts'
import { readStrikes, REAL_STRIKES } from '../../workers/strikes-file.ts'
import { Program, runProgram } from './program.ts'

const TIMEOUT_MS = 60_000
const STRIKES = 60
const LEASES = ['--lease-ms', '2000', '--max-lease-ms', '2500']

let fleet: Fleet
let postgres: EmbeddedPostgres
let directory: string
let input: string
let operators: number
let env: NodeJS.ProcessEnv
let queues = 0

beforeAll(async () => {
  ;[fleet, postgres, directory] = await Promise.all([
    startFleet({ masters: 5, queue: true }),
    startEmbeddedPostgres(),
    mkdtemp(join(tmpdir(), 'bullmq-redlock-examples-')),
  ])
  const strikes = (await readStrikes(REAL_STRIKES)).slice(0, STRIKES)
  operators = new Set(strikes.map(({ customer }) => customer)).size
  input = join(directory, 'strikes.ndjson')
  await writeFile(input, strikes.map((strike) => JSON.stringify(strike)).join('\n'))
  env = {
    BULLMQ_REDLOCK_QUEUE: fleet.queue.url,
    BULLMQ_REDLOCK_MASTERS: fleet.urls.join(','),
    DATABASE_URL: postgres.url,
  }
})

afterAll(async () => {
  await Promise.all([fleet.close(), postgres.close(), rm(directory, { recursive: true })])
})

function flags(...more: readonly string[]): readonly string[] {
  queues += 1
  return ['--json', '--queue', `queue-${queues}`, '--input', input, ...LEASES, ...more]
}

describe('workers/customer-ledger.ts', () => {
  it(
    'posts every strike once and in turn, into an embedded ledger when there is no other',
    async () => {
      const { DATABASE_URL, ...withoutDatabase } = env
      const ended = await runProgram(
        'workers/customer-ledger.ts',
        flags('--bootstrap', '--enqueue', '--until-drained', '--concurrency', '8'),
        withoutDatabase,
      )
      // On a busy machine the masters may be late for a moment.
      expect(ended.err.filter((line) => !/quarantined|breaker:/.test(line))).toEqual([])
      expect(ended.code).toBe(0)
      expect(DATABASE_URL).toBeDefined()
      expect(ended.events('note')).toHaveLength(1)
      expect(ended.events('enqueued')).toMatchObject([{ jobs: STRIKES }])
      expect(ended.events('done')).toHaveLength(STRIKES)
      expect(ended.events('audit')).toMatchObject([
        { jobsPosted: STRIKES, duplicateEffects: 0, outOfTurnEffects: 0, wrongBalances: 0 },
      ])
      expect(ended.events('drained')).toMatchObject([{ done: STRIKES, failed: 0, leasesLost: 0 }])
    },
    TIMEOUT_MS,
  )

  it(
    'adds nothing when the same file is enqueued again',
    async () => {
      const args = flags('--enqueue-only')
      await runProgram('workers/customer-ledger.ts', args, env)
      await runProgram('workers/customer-ledger.ts', args, env)
      const worker = args.filter((argument) => argument !== '--enqueue-only')
      const ended = await runProgram(
        'workers/customer-ledger.ts',
        [...worker, '--until-drained'],
        env,
      )
      expect(ended.code).toBe(0)
      expect(ended.events('done')).toHaveLength(STRIKES)
    },
    TIMEOUT_MS,
  )

  it(
    'ends with 3 when the queue is drained but a job failed for good',
    async () => {
      // PostgreSQL takes no NUL in a text.
      const strike = { id: 'nul', customer: 'x\u0000', date: '2001-02-03', amount: 1 }
      const file = join(directory, 'nul.ndjson')
      await writeFile(file, JSON.stringify(strike))
      const args = flags('--enqueue', '--until-drained', '--input', file)
      const ended = await runProgram('workers/customer-ledger.ts', args, env)
      expect(ended.code).toBe(3)
      expect(ended.events('failed')).toHaveLength(5)
      expect(ended.events('drained')).toMatchObject([{ done: 0, failedAttempts: 5, failed: 1 }])
    },
    TIMEOUT_MS,
  )

  it(
    'ends with 0 on SIGTERM and 130 on SIGINT, with everything closed',
    async () => {
      for (const [signal, code] of [['SIGTERM', 0] as const, ['SIGINT', 130] as const]) {
        await using worker = new Program('workers/customer-ledger.ts', flags(), env)
        await worker.line(/"event":"ready"/)
        worker.kill(signal)
        const ended = await worker.end()
        expect(ended.code).toBe(code)
        expect(ended.events('stopping')).toMatchObject([{ signal }])
      }
    },
    TIMEOUT_MS,
  )

  it(
    'names the flag and the fix when it cannot be run',
    async () => {
      const program = 'workers/customer-ledger.ts'
      const noMasters = await runProgram(program, [], { ...env, BULLMQ_REDLOCK_MASTERS: '' })
      expect(noMasters).toMatchObject({ code: 2, out: [] })
      expect(noMasters.err.join('\n')).toContain('--master redis://')
      const bad = await runProgram(program, ['--concurrency', 'many'], env)
      expect(bad).toMatchObject({ code: 2 })
      expect(bad.err).toEqual([
        'Expected --concurrency to be a whole number, at least 1; got "many"',
      ])
      await writeFile(join(directory, 'bad.ndjson'), '{"id":"a"}\n\nnonsense\n')
      const input = ['--enqueue-only', '--input', join(directory, 'bad.ndjson')]
      const badLines = await runProgram(program, input, env)
      expect(badLines.code).toBe(1)
      expect(badLines.err).toEqual([
        expect.stringContaining('has 2 bad lines'),
        expect.stringMatching(/line 1: Expected "customer"/),
        expect.stringMatching(/line 3: Expected JSON/),
      ])
    },
    TIMEOUT_MS,
  )
})

describe('workers/dedupe-reports.ts and workers/scale-out.ts', () => {
  it(
    'build each report once, though two processes are asked four times for each',
    async () => {
      const args = flags('--enqueue', '--requests', '4', '--until-drained', '--concurrency', '6')
      const program = ['--processes', '2', 'workers/dedupe-reports.ts', '--', ...args]
      const ended = await runProgram('workers/scale-out.ts', program, env)
      expect(ended.code).toBe(0)
      expect(ended.events('ready')).toHaveLength(2)
      const answers = ended.events('done').map(({ result }) => result as { from: string })
      expect(answers).toHaveLength(4 * operators)
      expect(answers.filter(({ from }) => from === 'built')).toHaveLength(operators)
      expect(ended.events('reports').at(-1)).toMatchObject({ operators, built: operators })
    },
    TIMEOUT_MS,
  )

  it(
    'start a killed process again, and end all of them on SIGTERM',
    async () => {
      const program = ['--processes', '2', 'workers/customer-ledger.ts', '--', ...flags()]
      await using supervisor = new Program('workers/scale-out.ts', program, env)
      const [, killed = ''] = await supervisor.line(/^\[1\] is process (\d+)/)
      process.kill(Number(killed), 'SIGKILL')
      await supervisor.line(/^\[1\] crashed \(SIGKILL\): started again in 250 ms/)
      const [, again = ''] = await supervisor.line(
        new RegExp(`^\\[1\\] is process (?!${killed})(\\d+)`),
      )
      await supervisor.line(new RegExp(`"event":"ready","pid":${again}`))
      supervisor.kill('SIGTERM')
      expect((await supervisor.end()).code).toBe(0)
      expect(() => process.kill(Number(again), 0)).toThrow('ESRCH')
    },
    TIMEOUT_MS,
  )

  it(
    'do not start a process again that was used wrongly',
    async () => {
      const program = ['--processes', '2', 'workers/customer-ledger.ts', '--', '--concurrency', '0']
      const ended = await runProgram('workers/scale-out.ts', program, env)
      expect(ended.code).toBe(2)
      expect(ended.err.filter((line) => line.includes('crashed'))).toEqual([])
    },
    TIMEOUT_MS,
  )

  it(
    'end with the process that started them, however it ended',
    async () => {
      const program = ['--processes', '1', 'workers/customer-ledger.ts', '--', ...flags()]
      await using supervisor = new Program('workers/scale-out.ts', program, env)
      const [, pid = ''] = await supervisor.line(/^\[1\] is process (\d+)/)
      await supervisor.line(/"event":"ready"/)
      supervisor.kill('SIGKILL')
      await supervisor.end()
      await expect.poll(() => isAlive(Number(pid)), { timeout: 15_000 }).toBe(false)
    },
    TIMEOUT_MS,
  )
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false // No such process.
  }
}
