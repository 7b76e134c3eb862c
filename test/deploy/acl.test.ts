/** The ACL files of deploy/redis on real servers: enough for what runs, and for nothing else. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { QueueEvents } from 'bullmq'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from '../../src/index.ts'
import { enrolScript } from '../../src/redlock/fleet/admission.ts'
import { batchScript } from '../../src/redlock/wire/batch-script.ts'
import { cli } from '../tools/cli/run-cli.ts'
import { until, useClosers } from '../fixtures.ts'
import { ask } from '../support/ask.ts'
import { ROOT, textOf } from './files.ts'
import { RedisProcess } from './redis-process.ts'

// Every command of the command line is a process of its own, and this machine may be busy.
vi.setConfig({ testTimeout: 180_000 })

const CONFIG = join(ROOT, 'deploy/redis/lock-master.conf')
const MASTER_ACL = 'deploy/redis/lock-master.acl'
const QUEUE_ACL = 'deploy/redis/queue.acl'
const PASSWORDS = { WORKER_PASSWORD: 'w/ork er', OPERATOR_PASSWORD: 'oper', JOBS_PASSWORD: 'jobs' }
/** Who looks into the log of refused commands; only this test has such a user. */
const AUDITOR = 'user auditor on >audit resetkeys resetchannels -@all +acl|log'

const directory = await mkdtemp(join(tmpdir(), 'acl-'))
afterAll(() => rm(directory, { recursive: true, force: true }))

async function withPasswords(template: string): Promise<string> {
  const env = { PATH: process.env['PATH'], ...PASSWORDS }
  const script = join(ROOT, 'deploy/redis/make-acl.sh')
  const { stdout } = await promisify(execFile)(script, [join(ROOT, template)], { env })
  return stdout
}

let files = 0
async function serverWith(acl: string): Promise<RedisProcess> {
  const file = join(directory, `users-${++files}.acl`)
  await writeFile(file, `${acl}${AUDITOR}\n`)
  return RedisProcess.start(CONFIG, '--aclfile', file)
}

function urlOf({ host, port }: RedisProcess, user: string, password: string): string {
  return `redis://${user}:${encodeURIComponent(password)}@${host}:${port}`
}
const workerUrl = (server: RedisProcess): string =>
  urlOf(server, 'worker', PASSWORDS.WORKER_PASSWORD)
const operatorUrl = (server: RedisProcess): string =>
  urlOf(server, 'operator', PASSWORDS.OPERATOR_PASSWORD)

/** What was refused on a server since it was asked last, as `user: command or key`. */
/** A Redlock asks for it whenever it enrols a master, and does without. */
const CONFIG_GET = ['worker: config|get']

async function refusals(server: RedisProcess): Promise<readonly string[]> {
  return ask(urlOf(server, 'auditor', 'audit'), async (redis) => {
    const entries = (await redis.acl('LOG')) as readonly (readonly unknown[])[]
    await redis.acl('LOG', 'RESET')
    return entries.map((entry) => {
      const field = (name: string): string => String(entry[entry.indexOf(name) + 1])
      return `${field('username')}: ${field('object')}`
    })
  })
}

const closers = useClosers()

function redlockOn(
  urls: readonly string[],
  options: { readonly maxLeaseMs?: number } = {},
): Redlock {
  return closers.closing(
    new Redlock({
      ...{ masters: urls, leaseMs: 2_000, maxLeaseMs: 3_000, logger: silentLogger, ...options },
    }),
  )
}

describe('the files as they are', () => {
  it('are refused by a server until they have passwords', async () => {
    for (const template of [MASTER_ACL, QUEUE_ACL]) {
      const text = textOf(template).replaceAll(/^#.*\n/gm, '')
      await expect(serverWith(text)).rejects.toThrow('password hash must be exactly')
    }
  })

  it('have no empty password', async () => {
    const { WORKER_PASSWORD } = PASSWORDS
    const env = { PATH: process.env['PATH'], WORKER_PASSWORD, OPERATOR_PASSWORD: '' }
    const script = join(ROOT, 'deploy/redis/make-acl.sh')
    const made = promisify(execFile)(script, [join(ROOT, MASTER_ACL)], { env })
    await expect(made).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('OPERATOR_PASSWORD is not set') as string,
    })
  })

  it("the worker's commands are those of the scripts and of the connection, and no others", () => {
    const [, rules = ''] = /^user worker (.*)$/m.exec(textOf(MASTER_ACL)) ?? []
    const allowed = rules.split(' ').flatMap((rule) => (rule.startsWith('+') ? rule.slice(1) : []))
    const scripts = [batchScript({ namespace: '' }), enrolScript].map(({ lua }) => lua).join('\n')
    const called = [...scripts.matchAll(/call(?:\(|, )'(\w+)'/g)].map(([, name = '']) =>
      name.toLowerCase(),
    )
    const connection = ['info', 'client|setname', 'script|load', 'eval', 'evalsha']
    const own = [...connection, 'time', 'subscribe', ...called]
    expect(allowed.sort()).toEqual([...new Set(own)].sort())
  })
})

describe('users of a lock master', () => {
  let servers: readonly RedisProcess[] = []

  beforeAll(async () => {
    const acl = await withPasswords(MASTER_ACL)
    servers = await Promise.all([serverWith(acl), serverWith(acl), serverWith(acl)])
    // As the operator of a new fleet does it.
    await using redlock = new Redlock({
      ...{ masters: servers.map(operatorUrl), leaseMs: 2_000, maxLeaseMs: 3_000 },
      logger: silentLogger,
    })
    await redlock.bootstrap({ newFleet: true })
  })
  afterEach(async () => {
    for (const server of servers) await refusals(server)
  })
  afterAll(async () => {
    for (const server of servers) await server.close()
  })

  const holders = (resource: string): Promise<readonly (string | null)[]> =>
    Promise.all(
      servers.map((server) =>
        ask(operatorUrl(server), (redis) => redis.get(`redlock:lease:${resource}`)),
      ),
    )

  it('worker: may acquire, wait, extend, heal and release', async () => {
    const redlock = redlockOn(servers.map(workerUrl))
    const other = redlockOn(servers.map(workerUrl))
    await redlock.ready()
    expect(redlock.status().masters.map(({ state }) => state)).toEqual(Array(3).fill('voting'))

    const lease = await redlock.acquire(['account:a', 'account:b'])
    const waiting = other.acquire('account:a', { waitMs: 30_000 })
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    await lease.release()
    const second = await waiting
    expect(second.fencingToken).toBeGreaterThan(lease.fencingToken)

    // It may have been granted before the last master let go; the next extension goes there too.
    await until('every master has it', async () => {
      await second.extend()
      return (await holders('account:a')).every((holder) => holder !== null)
    })
    // A key that one master lost is given back to it with the next extension.
    const [first] = servers
    if (first === undefined) throw new Error('there are three')
    await ask(operatorUrl(first), (redis) => redis.del('redlock:lease:account:a'))
    await until('it is healed', async () => {
      await second.extend()
      return (await holders('account:a')).every((holder) => holder !== null)
    })
    await second.release()
    expect((await other.tryAcquire('gpu', { slots: 2 })).status).toBe('granted')
    expect((await redlock.inspect('gpu#0')).masters).toHaveLength(3)
    for (const server of servers) expect(await refusals(server)).toEqual(CONFIG_GET)
  })

  it('worker: may do nothing else', async () => {
    const [server] = servers
    if (server === undefined) throw new Error('there are three')
    const refused = [
      ...['FLUSHALL', 'FLUSHDB', 'KEYS *', 'SCAN 0', 'DBSIZE', 'SHUTDOWN NOSAVE', 'ACL LIST'],
      ...['CONFIG SET maxmemory-policy allkeys-lru', 'CONFIG REWRITE', 'REPLICAOF 127.0.0.1 1'],
      ...['SCRIPT FLUSH', 'MONITOR', 'CLIENT LIST', 'CLIENT KILL TYPE normal', 'FUNCTION FLUSH'],
      ...['PERSIST redlock:master', 'RENAME redlock:master redlock:lease:x'],
      ...['UNLINK redlock:lease:x', 'GET other:key', 'SET redlock:other 1', 'PUBLISH other x'],
      ...['DEL bull:invoices:wait', 'GET redlock2:lease:x', 'SUBSCRIBE bull:invoices'],
    ].map((command) => command.split(' '))
    refused.push(
      ['EVAL', "return redis.call('GET', 'other:key')", '0'],
      ['EVAL', "return redis.call('FLUSHALL')", '0'],
    )
    for (const [name = '', ...args] of refused) {
      const answer = ask(workerUrl(server), (redis) => redis.call(name, ...args))
      await expect(answer, [name, ...args].join(' ')).rejects.toThrow(
        /NOPERM|The user executing the script can't/,
      )
    }
    // Redis cannot limit it to a parameter, and `CONFIG GET *` shows passwords.
    for (const parameter of ['*', 'masterauth', 'appendfsync']) {
      const config = ask(workerUrl(server), (redis) => redis.config('GET', parameter))
      await expect(config).rejects.toThrow('NOPERM')
    }
  })

  it('health may ping, and nothing else; without a login there is nothing', async () => {
    const [server] = servers
    if (server === undefined) throw new Error('there are three')
    const health = urlOf(server, 'health', 'any')
    expect(await ask(health, (redis) => redis.ping())).toBe('PONG')
    const plain = `redis://${server.host}:${server.port}`
    for (const [name = '', ...args] of [['INFO'], ['GET', 'redlock:master'], ['ACL', 'WHOAMI']]) {
      await expect(ask(health, (redis) => redis.call(name, ...args))).rejects.toThrow('NOPERM')
      await expect(ask(plain, (redis) => redis.call(name, ...args))).rejects.toThrow(
        /NOAUTH|closed/,
      )
    }
    const redlock = redlockOn([plain])
    await redlock.ready().catch(() => undefined)
    const [master] = redlock.status().masters
    expect(master?.state).not.toBe('voting')
    expect(master?.reason).toMatch(/NOAUTH|Authentication/)
  })

  it('operator: doctor, leases, inspect and release, and nothing else is refused', async () => {
    const env = { BULLMQ_REDLOCK_MASTERS: servers.map(operatorUrl).join(',') }
    const redlock = redlockOn(servers.map(workerUrl))
    await redlock.acquire('customer:42', { autoExtend: true })
    for (const [args, text] of [
      [['doctor'], 'healthy: 3 of 3 masters vote'],
      [['leases'], 'customer:42'],
      [['inspect', 'customer:42'], 'customer:42'],
      [['release', 'customer:42', '--yes'], 'released'],
      [['bootstrap', '--yes', '--max-lease-ms', '3000'], '3 of 3 masters vote'],
    ] as const) {
      const said = await cli(args, { env })
      expect(said, args.join(' ')).toMatchObject({ code: 0 })
      expect(said.out).toContain(text)
    }
    for (const server of servers) expect(await refusals(server)).toEqual(CONFIG_GET)
  })
})

it('with CONFIG GET a restarted master votes at once: it proves that it forgot nothing', async () => {
  const acl = (await withPasswords(MASTER_ACL)).replace(' +info ', ' +info +config|get ')
  const server = closers.closing(await serverWith(acl))
  const redlock = redlockOn([workerUrl(server)])
  await redlock.ready()
  await ask(operatorUrl(server), (redis) => redis.hset('redlock:master', 'votesInMs', '0'))
  const states: string[] = []
  const state = (): string | undefined => redlock.status().masters[0]?.state
  await server.restart()
  await until('it is enrolled again', () => {
    const now = state() ?? ''
    if (states.at(-1) !== now) states.push(now)
    return states.length > 1 && now === 'voting'
  })
  expect(states).not.toContain('quarantined')
})

it('without CONFIG GET everything works, and a restarted master sits out one maxLeaseMs', async () => {
  const server = closers.closing(await serverWith(await withPasswords(MASTER_ACL)))
  const redlock = redlockOn([workerUrl(server)], { maxLeaseMs: 30_000 })
  await redlock.ready()
  await ask(operatorUrl(server), (redis) => redis.hset('redlock:master', 'votesInMs', '0'))
  await server.restart()
  await until('it is quarantined', () => redlock.status().masters[0]?.state === 'quarantined')
  expect(await refusals(server)).toEqual(['worker: config|get'])
})

describe('a restart after kill -9', () => {
  /** A master that granted a lease before, and what it has of it. */
  async function restarted(
    acl: string,
  ): Promise<{ readonly lease: string | null; readonly redlock: Redlock }> {
    const master = closers.closing(await serverWith(acl))
    const founder = redlockOn([operatorUrl(master)], { maxLeaseMs: 30_000 })
    await founder.bootstrap({ newFleet: true })
    const redlock = redlockOn([workerUrl(master)], { maxLeaseMs: 30_000 })
    await redlock.acquire('customer:42', { leaseMs: 30_000 })
    await master.restart()
    const key = 'redlock:lease:customer:42'
    return { lease: await ask(operatorUrl(master), (redis) => redis.get(key)), redlock }
  }

  it('loses no lease of a master and no job of the queue', async () => {
    const { lease } = await restarted(await withPasswords(MASTER_ACL))
    expect(lease).not.toBeNull()

    const server = closers.closing(await serverWith(await withPasswords(QUEUE_ACL)))
    const connection = { url: urlOf(server, 'jobs', PASSWORDS.JOBS_PASSWORD) }
    const queue = new LockedQueue('orders', { connection, resource: () => 'customer:42' })
    closers.add(() => queue.close())
    await queue.addBulk([1, 2, 3].map((nr) => ({ name: 'charge', data: { nr } })))
    await server.restart()
    await until('its jobs are there', async () => (await queue.getWaitingCount()) === 3)
  })

  it('that loses what scripts wrote is noticed: the master does not vote at once', async () => {
    const acl = (await withPasswords(MASTER_ACL))
      .replace(' +info ', ' +info +config|get ')
      .replace(/^user default .*$/m, 'user default off resetpass -@all')
    const { lease, redlock } = await restarted(acl)
    expect(lease).toBeNull()
    await until('it is quarantined', () => redlock.status().masters[0]?.state === 'quarantined')
  })
})

it.each(['info', 'time'])(
  'without %s no master is trusted: it does not vote and says why',
  async (command) => {
    const acl = (await withPasswords(MASTER_ACL)).replaceAll(` +${command}`, '')
    const server = closers.closing(await serverWith(acl))
    const redlock = redlockOn([workerUrl(server)])
    await redlock.ready().catch(() => undefined)
    const [master] = redlock.status().masters
    expect(master?.state).not.toBe('voting')
    expect(master?.reason).toContain(`'${command}' command`)
  },
)

it('without SUBSCRIBE waiters poll', async () => {
  const server = closers.closing(
    await serverWith((await withPasswords(MASTER_ACL)).replaceAll(' +subscribe', '')),
  )
  const operator = redlockOn([operatorUrl(server)])
  await operator.bootstrap({ newFleet: true })
  const [holder, waiter] = [redlockOn([workerUrl(server)]), redlockOn([workerUrl(server)])]
  const lease = await holder.acquire('a', { autoExtend: true })
  const waiting = waiter.acquire('a', { waitMs: 30_000 })
  await until('it was refused', async () => (await refusals(server)).includes('worker: subscribe'))
  await lease.release()
  expect((await waiting).fencingToken).toBeGreaterThan(lease.fencingToken)
})

describe("the user of the queue's Redis", () => {
  it('runs jobs in their lines, and nothing is refused; it may not empty the server', async () => {
    const [queueAcl, masterAcl] = [await withPasswords(QUEUE_ACL), await withPasswords(MASTER_ACL)]
    const [server, master] = [await serverWith(queueAcl), await serverWith(masterAcl)]
    for (const each of [server, master]) closers.closing(each)
    const redlock = redlockOn([operatorUrl(master)])
    await redlock.bootstrap({ newFleet: true })
    const { host, port } = server
    const connection = { host, port, username: 'jobs', password: PASSWORDS.JOBS_PASSWORD }
    interface Invoice {
      readonly customer: number
      readonly number: number
    }
    const resource = ({ customer }: Invoice): string => `customer:${customer}`
    const queue = new LockedQueue<Invoice>('invoices', { connection, resource })
    const events = new QueueEvents('invoices', { connection })
    await events.waitUntilReady()
    const done: number[] = []
    const worker = new LockedWorker<Invoice>(
      'invoices',
      async ({ data }, lease) => {
        await lease.step('post', () => {
          done.push(data.number)
          return Promise.resolve()
        })
      },
      {
        connection,
        redlock,
        resource: ({ data }) => resource(data),
        concurrency: 5,
        checkpoints: true,
      },
    )
    for (const each of [queue, events, worker]) closers.closing(each)
    const jobs = []
    for (let number = 1; number <= 5; number++) {
      jobs.push(await queue.add('invoice', { customer: 1, number }, { attempts: 3 }))
    }
    await Promise.all(jobs.map((job) => job.waitUntilFinished(events)))
    expect(done).toEqual([1, 2, 3, 4, 5])
    expect(await queue.getWorkers()).toHaveLength(1)
    const url = urlOf(server, 'jobs', PASSWORDS.JOBS_PASSWORD)
    const env = { BULLMQ_REDLOCK_MASTERS: operatorUrl(master), BULLMQ_REDLOCK_QUEUE: url }
    const why = await cli(['why', 'invoices', jobs[0]?.id ?? ''], { env })
    expect(why.out).toContain('completed')
    expect(await refusals(server)).toEqual([])
    for (const [name = '', ...args] of [
      ...[['FLUSHALL'], ['KEYS', '*'], ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'GET', '*']],
      ...[['GET', 'other:key'], ['SHUTDOWN'], ['ACL', 'LIST'], ['REPLICAOF', 'a', '1']],
    ]) {
      await expect(
        ask(url, (redis) => redis.call(name, ...args)),
        name,
      ).rejects.toThrow('NOPERM')
    }
  })
})
