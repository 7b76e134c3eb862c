/**
 * deploy/redis/tls.conf on real servers, with certificates of deploy/redis/make-certificates.sh.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Redis, type RedisOptions } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { LineBackend } from '../../src/line/line-backend.ts'
import { disconnectNow } from '../../src/line/queue-connection.ts'
import { dashboardHandler } from '../../src/tools/dashboard/index.ts'
import { LockedQueue, Redlock, silentLogger } from '../../src/index.ts'
import { findServerBinary } from '../../src/testing/choose-backend.ts'
import { startServer } from '../../src/testing/index.ts'
import { tlsMismatch } from '../../src/tls-check.ts'
import { cli } from '../tools/cli/run-cli.ts'
import { findProgram } from '../../scripts/find-program.ts'
import { ROOT } from './files.ts'
import { RedisProcess } from './redis-process.ts'

vi.setConfig({ testTimeout: 180_000 })

const deployed = (file: string): string => join(ROOT, 'deploy/redis', file)
const run = promisify(execFile)
const PASSWORDS = { WORKER_PASSWORD: 'worker', OPERATOR_PASSWORD: 'operator' }

/** Why this machine cannot run the tests below, if it cannot. */
async function findObstacle(): Promise<string | undefined> {
  if (findProgram('openssl') === undefined) return 'openssl is not installed'
  const search = await findServerBinary()
  if (search.status === 'missing') return 'no redis-server is installed'
  // Without TLS it does not know the directive; with it, it complains about the files.
  const said = await run(search.binary.path, [
    '--port',
    '0',
    '--tls-port',
    '1',
    '--tls-cert-file',
    '',
  ]).then(
    () => '',
    (error: unknown) => String((error as { stdout: unknown }).stdout),
  )
  return /Bad directive/.test(said) ? `${search.binary.path} is built without TLS` : undefined
}

const obstacle = await findObstacle()
if (obstacle !== undefined) console.log(`skipped: TLS, because ${obstacle}`)

describe.skipIf(obstacle !== undefined)('masters that speak TLS', () => {
  let directory: string
  let servers: readonly RedisProcess[] = []

  const certificates = (name: string): string => join(directory, 'tls', name)
  const pem = (name: string): string => readFileSync(certificates(name), 'utf8')
  const withCertificate = (): RedisOptions['tls'] => ({
    ...{ ca: pem('ca.crt'), cert: pem('client.crt'), key: pem('client.key') },
  })
  const address = ({ host, port }: RedisProcess, tls: RedisOptions['tls'], user = 'worker') => ({
    ...{ host, port, username: user, password: user },
    ...(tls !== undefined && { tls }),
  })

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tls-'))
    const env = { PATH: process.env['PATH'], ...PASSWORDS }
    await run(deployed('make-certificates.sh'), [join(directory, 'tls'), 'lock-1', 'IP:127.0.0.1'])
    await run(deployed('make-certificates.sh'), [join(directory, 'foreign'), 'IP:127.0.0.1'])
    const { stdout: acl } = await run(deployed('make-acl.sh'), [deployed('lock-master.acl')], {
      env,
    })
    await writeFile(join(directory, 'users.acl'), acl)
    const start = (): Promise<RedisProcess> =>
      RedisProcess.start(
        deployed('lock-master.conf'),
        ...['--include', deployed('tls.conf'), '--aclfile', join(directory, 'users.acl')],
        ...['--port', '0', '--tls-port', 'PORT', '--tls-ca-cert-file', certificates('ca.crt')],
        ...['--tls-cert-file', certificates('server.crt')],
        ...['--tls-key-file', certificates('server.key')],
      )
    servers = await Promise.all([start(), start(), start()])
  })
  afterAll(async () => {
    for (const server of servers) await server.close()
    await rm(directory, { recursive: true, force: true })
  })

  it('a worker acquires, extends and releases; doctor connects too', async () => {
    const masters = servers.map((server) => address(server, withCertificate()))
    const config = {
      masters: servers.map((server) => address(server, withCertificate(), 'operator')),
    }
    const file = join(directory, 'bullmq-redlock.json')
    await writeFile(file, JSON.stringify({ ...config, timeoutMs: 10_000 }))
    const bootstrap = await cli(['bootstrap', '--yes', '--config', file])
    expect(bootstrap.out).toContain('3 of 3 masters vote')

    const [first] = masters
    const redis = new Redis({ ...first, lazyConnect: true })
    await redis.connect()
    expect(await redis.time()).toHaveLength(2)
    redis.disconnect()

    await using redlock = new Redlock({ masters, logger: silentLogger })
    const lease = await redlock.acquire('customer:42')
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    const leases = await cli(['leases', '--config', file])
    expect(leases.out).toContain('customer:42')
    await lease.release()
    expect(await cli(['doctor', '--config', file])).toMatchObject({ code: 0 })
  })

  it("the queue's Redis may ask for a certificate too: the file's `queueRedis` is an object", async () => {
    const env = { PATH: process.env['PATH'], JOBS_PASSWORD: 'jobs' }
    const { stdout: acl } = await run(deployed('make-acl.sh'), [deployed('queue.acl')], { env })
    await writeFile(join(directory, 'queue-users.acl'), acl)
    await using queue = await RedisProcess.start(
      deployed('lock-master.conf'),
      ...['--include', deployed('tls.conf'), '--aclfile', join(directory, 'queue-users.acl')],
      ...['--port', '0', '--tls-port', 'PORT', '--tls-ca-cert-file', certificates('ca.crt')],
      ...['--tls-cert-file', certificates('server.crt')],
      ...['--tls-key-file', certificates('server.key')],
    )
    const queueRedis = address(queue, withCertificate(), 'jobs')
    const masters = servers.map((server) => address(server, withCertificate(), 'operator'))
    const file = join(directory, 'queue.json')
    await writeFile(file, JSON.stringify({ masters, queueRedis, timeoutMs: 10_000 }))
    const config = ['--config', file, '--json']
    const jobs = new LockedQueue<{ customer: number }>('invoices', {
      connection: queueRedis,
      resource: ({ customer }) => String(customer),
    })
    await jobs.add('post', { customer: 42 }, { jobId: 'a' })
    await jobs.close()
    const said = await cli(['inspect', '42', ...config])
    expect(said.json()).toMatchObject({ line: [{ queue: 'invoices', jobId: 'a' }] })
    const handler = dashboardHandler({ masters, queueRedis })
    expect(await handler.why('invoices', 'a')).toContain('is first in line for `42`')
    await handler.close()
  })

  it.each([
    ['no certificate', () => ({ ca: pem('ca.crt') }), /TLS: .*alert/, /give its clients a cert/],
    [
      'a certificate of another authority',
      () => ({
        ca: pem('ca.crt'),
        cert: pem('../foreign/client.crt'),
        key: pem('../foreign/client.key'),
      }),
      /TLS: .*alert/,
      /give its clients a certificate/,
    ],
    [
      'an authority that did not sign the server',
      () => ({ ...withCertificate(), ca: pem('../foreign/ca.crt') }),
      /certificate/,
      /give it a valid certificate for this name, and its clients the `ca`/,
    ],
    ['no TLS', () => undefined, /the server speaks TLS on this port/, /correct its URL/],
  ])('nothing is said to a client with %s, but why', async (_what, tls, says, fix) => {
    const [server] = servers
    if (server === undefined) throw new Error('there are three')
    const own = address(server, tls())
    const redis = new Redis({
      ...own,
      ...{ lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 },
    })
    redis.on('error', () => undefined) // The rejection says it too.
    await expect(redis.connect().then(() => redis.time())).rejects.toThrow()
    redis.disconnect()
    await using redlock = new Redlock({ masters: [own], logger: silentLogger })
    await expect(redlock.ready()).rejects.toThrow(says)
    const file = join(directory, 'refused.json')
    await writeFile(file, JSON.stringify({ masters: [own], timeoutMs: 10_000 }))
    const doctor = await cli(['doctor', '--config', file])
    expect(doctor.out).toMatch(says)
    expect(doctor.out).toMatch(fix)
    expect(doctor.out).not.toMatch(/SSL routines/)
  })

  // The server answers a client that refuses its certificate: an error behind the first one.
  it('what closes while it refuses a certificate ends no process', async () => {
    const [server] = servers
    if (server === undefined) throw new Error('there are three')
    const own = address(server, { ca: pem('../foreign/ca.crt') })
    const uncaught: unknown[] = []
    const onUncaught = (error: unknown): unknown => uncaught.push(error)
    process.on('uncaughtException', onUncaught)
    const closing = Array.from({ length: 100 }, async (_, nr) => {
      const redlock = new Redlock({ masters: [own], logger: silentLogger })
      const queue = new LockedQueue('refused', { connection: own, resource: () => 'one' })
      queue.on('error', () => undefined)
      await delay(nr)
      disconnectNow(LineBackend.of(queue))
      await redlock.close()
    })
    await Promise.all(closing)
    await delay(500) // A late one comes in this time.
    process.off('uncaughtException', onUncaught)
    expect(uncaught).toEqual([])
  })

  it('what a server speaks is heard by a process that stands still meanwhile', async () => {
    await using plain = await startServer()
    const [server] = servers
    if (server === undefined) throw new Error('there are three')
    for (const [{ host, port }, tls] of [
      [server, undefined],
      [plain, {}],
    ] as const) {
      const asked = tlsMismatch({ host, port, ...(tls && { tls }) })
      for (let times = 0; times < 3; times++) {
        const until = performance.now() + 700
        while (performance.now() < until);
        await delay(0)
      }
      expect(await asked).toContain('on this port')
    }
  })

  it('a URL without TLS for a port with it, and the other way round: both are said', async () => {
    await using plain = await startServer()
    const [server] = servers
    if (server === undefined) throw new Error('there are three')
    for (const [{ host, port }, tls, said] of [
      [server, undefined, 'the server speaks TLS on this port: use `rediss://`'],
      [plain, {}, 'the server speaks no TLS on this port: use `redis://`'],
    ] as const) {
      await using redlock = new Redlock({
        masters: [{ host, port, ...(tls && { tls }) }],
        logger: silentLogger,
      })
      await expect(redlock.ready()).rejects.toThrow(said)
      const scheme = tls === undefined ? 'redis' : 'rediss'
      const url = `${scheme}://${host}:${port}`
      const doctor = await cli(['doctor', '--master', url, '--queue-redis', url])
      expect(doctor.out.split(said)).toHaveLength(2)
      expect(doctor.out).toContain('correct its URL')
    }
    // A certificate that is not accepted is no such mistake.
    const foreign = { ca: pem('../foreign/ca.crt') }
    const { host, port } = server
    await using strict = new Redlock({
      masters: [{ host, port, tls: foreign }],
      logger: silentLogger,
    })
    await expect(strict.ready()).rejects.toThrow('certificate')
    await expect(strict.ready()).rejects.not.toThrow('on this port')
  })
})
