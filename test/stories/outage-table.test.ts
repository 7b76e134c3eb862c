/**
 * Every outage × every command: the exit code, and that nothing is said which is not known. A
 * command that waits for a dead server without a limit fails by the time limit of its row.
 */
import { expect, it, vi } from 'vitest'
import { cli, runningCli, type Said } from '../tools/cli/run-cli.ts'
import { granted, until, useFleet } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { hasQuorum, OUTAGES, strike, type Outage, type OutageName } from './outages.ts'

vi.setConfig({ testTimeout: 300_000 })

assertNoLeaks()
const fixture = useFleet({ masters: 5 })

/** A command that waits for a silent server gives up after a second. */
const QUICK = { BULLMQ_REDLOCK_TIMEOUT_MS: '1000' }

/** Held until all commands of a row have run, also on a busy machine. */
const LEASE_MS = 300_000

type Command =
  | 'doctor'
  | 'leases'
  | 'inspect'
  | 'release'
  | 'why'
  | 'bootstrap'
  | 'pause'
  | 'limit'
  | 'limits'
  | 'resume'
  | 'cancel'
  | 'leave-lines'
  | 'verify'

type Codes = Readonly<Record<Command, number>>

/** It asks no server. `verify` is given no line about a lease. */
const ALONE = { verify: 2 }

// `doctor` ends with 1 also where all is well: the queue of a test writes nothing to disk.
// `bootstrap` is refused by a master that holds a lease.
// `cancel` is asked for a job that is missing.
const GOOD: Codes = {
  ...{ pause: 0, limit: 0, limits: 0, resume: 0, cancel: 1, 'leave-lines': 0 },
  ...{ doctor: 1, leases: 0, inspect: 0, release: 0, why: 0 },
  ...{ bootstrap: 1, ...ALONE },
}
const NO_QUORUM: Codes = {
  ...{ doctor: 3, leases: 3, inspect: 3, release: 3, why: 3 },
  ...{ bootstrap: 3 },
  ...{ pause: 0, limit: 0, limits: 0, resume: 0, cancel: 1, 'leave-lines': 0, ...ALONE },
}
const NO_QUEUE: Codes = {
  ...{ ...GOOD, inspect: 1, why: 1 },
  ...{ pause: 1, limit: 1, limits: 1, resume: 1, cancel: 1, 'leave-lines': 1 },
}

const CODES: Readonly<Record<OutageName, Codes>> = {
  'no outage': GOOD,
  '1 of 5 masters dead': GOOD,
  '2 of 5 masters dead': GOOD,
  '3 of 5 masters dead': NO_QUORUM,
  '5 of 5 masters dead': NO_QUORUM,
  '3 of 5 masters frozen': NO_QUORUM,
  'one master refused': GOOD,
  "the queue's Redis dead": NO_QUEUE,
  "the queue's Redis silent": NO_QUEUE,
  "the queue's Redis at maxmemory": { ...GOOD, pause: 1, limit: 1 },
}

const QUEUE_PROBLEMS = { dead: 'ECONNREFUSED', silent: 'no reply within' } as const

/** A lease on `customer:42`, the job `a` that waits for it, and the outage. */
async function scene(outage: Outage): Promise<{ queue: string; env: NodeJS.ProcessEnv }> {
  const { namespace } = fixture
  const redlock = await fixture.redlock({ leaseMs: LEASE_MS, maxLeaseMs: LEASE_MS })
  await granted(redlock, 'customer:42')
  const queue = `q-${namespace}`
  const locked = fixture.lockedQueue<{ customerId: number }>(
    { resource: ({ customerId }) => `customer:${customerId}` },
    queue,
  )
  await locked.add('post', { customerId: 42 }, { jobId: 'a' })
  await locked.close()
  await strike(fixture, outage)
  return { queue, env: { ...fixture.env, ...QUICK } }
}

it.each(Object.keys(OUTAGES) as OutageName[])('commands: %s', async (name) => {
  const outage: Outage = OUTAGES[name]
  const { queue, env } = await scene(outage)
  const commands: Readonly<Record<Command, readonly string[]>> = {
    doctor: ['doctor'],
    leases: ['leases'],
    inspect: ['inspect', 'customer:42'],
    release: ['release', 'unused', '--yes'],
    why: ['why', queue, 'a'],
    bootstrap: ['bootstrap', '--yes'],
    pause: ['pause', queue, 'unused'],
    limit: ['limit', queue, 'unused', '--slots', '2'],
    limits: ['limits', queue],
    resume: ['resume', queue, 'unused'],
    cancel: ['cancel', queue, '--job', 'missing', '--yes'],
    'leave-lines': ['leave-lines', queue, '--yes'],
    verify: ['verify', '-'],
  }
  const all: Partial<Record<Command, Said>> = {}
  for (const [command, args] of Object.entries(commands) as [Command, readonly string[]][]) {
    all[command] = await cli(args, { env })
  }
  const said = all as Record<Command, Said>
  const codes = Object.fromEntries(Object.entries(said).map(([each, { code }]) => [each, code]))
  expect(codes).toEqual(CODES[name])
  if (hasQuorum(outage)) {
    expect(said.leases.out).toMatch(/customer:42 +held/)
    expect(said.inspect.out).toContain('customer:42 is held by')
    expect(said.release.out).toContain('unused is free')
    expect(said.bootstrap.err).toContain('this fleet is in use')
  } else {
    expect(said.leases.out).toContain('The holders are not known')
    expect(said.inspect.out).toContain('The holder of customer:42 is not known')
    expect(said.release.out).toContain('may still be held')
    expect(said.why.out).toMatch(/waits for a quorum of the lock masters: \d of 5 masters vote/)
    expect(said.why.err).toContain('does not answer')
    expect(said.bootstrap.err).toMatch(/fewer than 3 of 5/i)
  }
  if (outage.queue === 'dead' || outage.queue === 'silent') {
    const problem = QUEUE_PROBLEMS[outage.queue]
    expect(said.doctor.out).toMatch(new RegExp(`error +queue .*${problem}`))
    expect(said.inspect.out).toMatch(new RegExp(`its line is not known: .*${problem}`))
    expect(said.leases.err).toMatch(new RegExp(`Jobs are not shown: .*${problem}`))
    expect(said.why.err).toMatch(new RegExp(`the queue's Redis .* does not answer: .*${problem}`))
  } else if (hasQuorum(outage)) {
    expect(said.why.out).toContain('is first in line for `customer:42` and waits for the lease')
  }
  if (outage.queue === 'full') {
    expect(said.doctor.out).toMatch(/error +queue .* is full and refuses writes/)
    expect(said.pause.err).toContain('The server is full and refuses writes. Raise its maxmemory')
  }
})

it.each(Object.keys(OUTAGES) as OutageName[])('programs: %s', async (name) => {
  const outage: Outage = OUTAGES[name]
  const { queue, env } = await scene(outage)
  const health = ['--health-port', '0', '--health-host', '127.0.0.1', '--drain-ms', '500']
  await using work = runningCli(['work', 'test/tools/cli/ledger-worker-child.ts', ...health], {
    ...env,
    QUEUE: queue,
  })
  await using dashboard = runningCli(['dashboard', '--port', '0'], env)
  const [, page = ''] = await dashboard.line(/dashboard at (http:\S+)\//)
  const [, base = ''] = await work.line(/health at (http:\S+)\/healthz/)
  const status = async (url: string): Promise<number> => {
    const response = await fetch(url)
    await response.arrayBuffer() // Its connection can close then.
    return response.status
  }
  expect(await status(`${page}/state`)).toBe(200)
  expect(await status(`${base}/healthz`)).toBe(200)
  expect(await status(`${base}/metrics`)).toBe(200)
  const isReady = hasQuorum(outage) && outage.queue === undefined
  await until('it is ready, or not', async () => {
    return (await status(`${base}/readyz`)) === (isReady ? 200 : 503)
  })
  dashboard.kill('SIGTERM')
  work.kill('SIGTERM')
  const [shown, worked] = await Promise.all([dashboard.end(), work.end()])
  expect([shown.code, worked.code]).toEqual([0, 0])
  expect(worked.err).toContain('drained')
  // A server that is away is said to be, and not with every attempt.
  const about = worked.err.filter((line) => /ECONNREFUSED|OOM|does not vote/.test(line))
  expect(about.length).toBeLessThanOrEqual(10)
})
