/** etcd that speaks TLS, knows users, and asks for client certificates. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findProgram } from '../../../scripts/find-program.ts'
import { noEtcd, startEtcd, type EtcdCluster } from '../../../scripts/lock-servers/etcd-server.ts'
import { systemClock } from '../../../src/clock.ts'
import { EtcdLocks, type EtcdLocksOptions, type EtcdTls } from '../../../src/services/etcd/index.ts'
import { EtcdGateway } from '../../../src/services/etcd/gateway.ts'
import { silentLogger } from '../../../src/index.ts'
import { runningCli } from '../../tools/cli/run-cli.ts'
import { ROOT } from '../../deploy/files.ts'

const run = promisify(execFile)
const isMissing = noEtcd || findProgram('openssl') === undefined
if (isMissing) {
  console.warn('Skipped: on Debian or Ubuntu: apt-get install etcd-server openssl')
}

describe.skipIf(isMissing)('EtcdLocks over TLS', () => {
  let directory: string
  let cluster: EtcdCluster
  const closers: (() => Promise<unknown>)[] = []
  const file = (name: string): string => join(directory, name)
  const pem = (name: string): string => readFileSync(file(name), 'utf8')
  const withCertificate = (): EtcdTls => ({
    ...{ ca: pem('ca.crt'), cert: pem('client.crt'), key: pem('client.key') },
  })

  function gateway(endpoints: readonly string[], tls: EtcdTls): EtcdGateway {
    const user = { username: undefined, password: undefined }
    const made = new EtcdGateway({ endpoints, tls, ...user, timeoutMs: 5_000, clock: systemClock })
    closers.push(() => {
      made.close()
      return Promise.resolve()
    })
    return made
  }

  function start(name: string, ...more: readonly string[]): Promise<EtcdCluster> {
    const certificates = ['--cert-file', file(`${name}.crt`), '--key-file', file(`${name}.key`)]
    return startEtcd(1, {
      scheme: 'https',
      more: [...certificates, ...more],
      isReady: async (url) => {
        await gateway([url], withCertificate()).call('/v3/kv/range', { key: 'AA==' })
        return true
      },
    })
  }

  async function open(options: Partial<EtcdLocksOptions>): Promise<EtcdLocks> {
    const locks = new EtcdLocks({
      ...{ endpoints: cluster.urls, leaseMs: 1_000, requestTimeoutMs: 1_000 },
      ...{ logger: silentLogger, ...options },
    })
    closers.push(() => locks.close())
    await locks.ready()
    return locks
  }

  async function everyCallOf(locks: EtcdLocks, other: EtcdLocks): Promise<void> {
    const lease = await locks.acquire('secret', { leaseMs: 5_000 })
    expect((await lease.extend()).status).toBe('extended')
    const waiting = other.acquire('secret', { waitMs: 10_000 }) // Watches over TLS.
    await lease.release()
    const next = await waiting
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    await next.release()
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'etcd-tls-'))
    const script = join(ROOT, 'deploy/redis/make-certificates.sh')
    await run(script, [directory, 'localhost', 'IP:127.0.0.1'])
    await run(script, [join(directory, 'foreign'), 'IP:127.0.0.1'])
    cluster = await start('server')
  })
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close()
  })
  afterAll(async () => {
    await cluster.close()
    await rm(directory, { recursive: true, force: true })
  })

  test('trusts only the authority that it is given', async () => {
    const ca = pem('ca.crt')
    await everyCallOf(await open({ tls: { ca } }), await open({ tls: { ca } }))
    await expect(open({})).rejects.toThrow(/certificate/)
    await expect(open({ tls: { ca: pem('foreign/ca.crt') } })).rejects.toThrow(/certificate/)
  })

  test('logs in as a user who may touch its own keys only', async () => {
    const tls = { ca: pem('ca.crt') }
    const admin = gateway(cluster.urls, tls)
    const encoded = (text: string): string => Buffer.from(text).toString('base64')
    const owns = { key: encoded('redlock/'), range_end: encoded('redlock0'), permType: 'READWRITE' }
    for (const [path, body] of [
      ['user/add', { name: 'root', password: 'secret' }],
      ['role/add', { name: 'root' }],
      ['user/grant', { user: 'root', role: 'root' }],
      ['user/add', { name: 'worker', password: 'geheim' }],
      ['role/add', { name: 'locks' }],
      ['role/grant', { name: 'locks', perm: owns }],
      ['user/grant', { user: 'worker', role: 'locks' }],
      ['enable', {}],
    ] as const) {
      await admin.call(`/v3/auth/${path}`, body)
    }
    const worker = { tls, username: 'worker', password: 'geheim' }
    await everyCallOf(await open(worker), await open(worker))
    await expect(open({ ...worker, namespace: 'other' })).rejects.toThrow(/permission denied/)
    await expect(open({ ...worker, password: 'wrong' })).rejects.toThrow(/password/)
    await expect(open({ tls })).rejects.toThrow(/user name is empty/)

    const locks = await open(worker)
    const lease = await locks.acquire('customer:42', { autoExtend: true })
    const [url = ''] = cluster.urls
    const args = ['leases', '--locks', `etcd:${url.replace('//', '//worker:geheim@')}`]
    const env = { NODE_EXTRA_CA_CERTS: file('ca.crt'), BULLMQ_REDLOCK_TIMEOUT_MS: '5000' }
    await using program = runningCli(args, env) // Node.js reads the variable when it starts.
    const { out, err } = await program.end()
    expect(out.join('\n'), err.join('\n')).toContain(String(lease.fencingToken))
    await lease.release()
  })

  test('shows a client certificate to a member that asks for one', async () => {
    // Its gateway calls the member with the member's own certificate, which must be good for that.
    await writeFile(
      file('both.ext'),
      'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n',
    )
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const request = ['-subj', '/CN=both', '-keyout', file('both.key'), '-out', file('both.csr')]
    await run('openssl', ['req', '-new', ...key, ...request])
    const authority = ['-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial']
    const signed = ['-extfile', file('both.ext'), '-in', file('both.csr'), '-out', file('both.crt')]
    await run('openssl', ['x509', '-req', '-days', '30', ...authority, ...signed])
    const strict = await start('both', '--client-cert-auth', '--trusted-ca-file', file('ca.crt'))
    try {
      const endpoints = strict.urls
      const tls = withCertificate()
      await everyCallOf(await open({ endpoints, tls }), await open({ endpoints, tls }))
      await expect(open({ endpoints, tls: { ca: pem('ca.crt') } })).rejects.toThrow()
    } finally {
      await strict.close()
    }
  })
})
