import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Client, type Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../../src/clock.ts'
import { silentLogger } from '../../../src/index.ts'
import { PostgresLocks, type PostgresLocksOptions } from '../../../src/services/postgres/index.ts'
import type { PgPool, PgQueryable } from '../../../src/services/postgres/pg.ts'
import { statementsFor } from '../../../src/services/postgres/statements.ts'
import { describeToken } from '../../../src/names.ts'
import { SteppedLease, type JobLease } from '../../../src/worker/run/job-lease.ts'
import { openLocks } from '../../../src/tools/operator/open-locks.ts'
import { lockServiceCases } from '../lock-service-cases.ts'
import { aborted, until, useClosers } from '../../fixtures.ts'
import { describeService } from '../../support/describe-service.ts'
import { useBystander } from '../../support/undisturbed.ts'
import { compileShim } from '../../faults/shimmed-clock.ts'
import { networkOf, startProxy, type FaultProxy } from '../../support/proxy.ts'
import {
  noPgbouncer,
  startPgbouncer,
  startPostgres,
  startStandby,
  type PostgresServer,
} from '../../../scripts/lock-servers/postgres-server.ts'

/** Of the cases, which wait for the end of many leases. */
const SHORT_MS = 600
/** More than a close takes on a busy machine. */
const CLOSE_LIMIT_MS = 20_000
/** A server that is busy answers late. */
const LONG = { leaseMs: 2_000, requestTimeoutMs: 1_500 }

if (noPgbouncer) console.warn('Skipped in part: Debian package `pgbouncer` is not installed.')

const SHORT = { leaseMs: SHORT_MS, requestTimeoutMs: SHORT_MS }

/** A pool whose connections ask in another way. */
function asking(db: Pool, ask: (client: PoolClient) => PgQueryable['query']): PgPool {
  return {
    query: (query) => db.query(query),
    connect(taken) {
      db.connect((error, client) => {
        const other = client && { query: ask(client) }
        taken(error, other && Object.assign(Object.create(client) as PoolClient, other))
      })
    },
  }
}

describeService('postgres', 'PostgresLocks', () => {
  let server: PostgresServer
  const closers = useClosers()
  const undisturbed = useBystander()

  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(async () => {
    await server.close()
  })

  function pool(options?: Parameters<PostgresServer['pool']>[0]): Pool {
    const made = server.pool(options)
    closers.add(() => made.end())
    return made
  }

  async function open(options: Partial<PostgresLocksOptions> = {}): Promise<PostgresLocks> {
    const locks = new PostgresLocks({
      ...{ pool: options.pool ?? pool(), ...LONG, logger: silentLogger },
      ...options,
    })
    closers.add(() => locks.close())
    await locks.ready()
    return locks
  }

  test('a server that ends a session in the turn in which it is there ends no process', async () => {
    const ready = Buffer.from('Z\0\0\0\x05I')
    const fields = Buffer.from('SFATAL\0VFATAL\0C57P01\0Munexpected postmaster exit\0\0')
    const fatal = Buffer.concat([Buffer.from('E\0\0\0'), Buffer.of(fields.length + 4), fields])
    let ends = true
    const between = createServer((client) => {
      const session = connect(server.port, '127.0.0.1')
      for (const socket of [client, session]) socket.on('error', () => undefined)
      client.pipe(session)
      session.on('data', (data) => {
        const isReady = ends && data.subarray(-ready.length).equals(ready)
        client.write(isReady ? Buffer.concat([data, fatal]) : data)
      })
      session.on('close', () => client.destroy())
      client.on('close', () => session.destroy())
    }).listen(0, '127.0.0.1')
    await once(between, 'listening')
    closers.add(() => Promise.resolve(between.close()))
    const { port } = between.address() as AddressInfo
    const address = { host: '127.0.0.1', port, user: 'postgres', database: 'postgres' }
    const through = pool({ connectionString: undefined, ...address })
    through.on('error', () => undefined)
    const locks = new PostgresLocks({ pool: through, ...LONG, logger: silentLogger })
    closers.add(() => locks.close())
    const write = (): Promise<string> => Promise.resolve('written')
    const uncaught: unknown[] = []
    const onUncaught = (error: unknown): unknown => uncaught.push(error)
    process.on('uncaughtException', onUncaught)
    await expect(locks.ready()).rejects.toThrow()
    await expect(locks.transaction('ends', write)).rejects.toThrow()
    process.off('uncaughtException', onUncaught)
    expect(uncaught).toEqual([])
    ends = false
    await locks.ready()
    expect(await locks.transaction('ends', write)).toBe('written')
  })

  describe('pass the cases for lock services', () => {
    let proxy: FaultProxy
    beforeAll(async () => {
      proxy = await startProxy(server.port)
    })
    afterAll(() => proxy.close())
    const cases = lockServiceCases({
      network: networkOf(() => [proxy]),
      open: () => {
        const options = { host: '127.0.0.1', port: proxy.port, user: 'postgres' }
        const through = pool({ connectionString: undefined, ...options, database: 'postgres' })
        return open({ pool: through, listen: () => server.client(), ...SHORT })
      },
    })
    for (const { name, run } of cases) test(name, () => undisturbed(run))
  })

  describe.skipIf(noPgbouncer)('pass them through pgbouncer in transaction mode', () => {
    let bouncer: Awaited<ReturnType<typeof startPgbouncer>>
    beforeAll(async () => {
      bouncer = await startPgbouncer(server)
    })
    afterAll(() => bouncer.close())
    const cases = lockServiceCases({
      open: () => {
        const through = bouncer.pool()
        closers.add(() => through.end())
        return open({ pool: through, ...SHORT })
      },
    })
    for (const { name, run } of cases) test(name, () => undisturbed(run))
  })

  test('2: a terminated backend loses no lease and throws no error', async () => {
    const locks = await open({ leaseMs: 5_000 })
    await using lease = await locks.acquire('terminated', { autoExtend: true })
    const admin = pool()
    await admin.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = $1',
      ['client backend'],
    )
    await until('an extension goes over a new connection', async () => {
      return (await lease.extend()).status === 'extended'
    })
    lease.assertHeld()
  })

  test('4: a transaction of a dead holder keeps others out until it ends', async () => {
    const locks = await open()
    const lease = await locks.acquire('half-done', { leaseMs: 1_000 })
    const writing = locks.transaction(lease, async ({ client }) => {
      await client.query({ text: 'SELECT pg_sleep(2.5)', values: [] })
      return performance.now()
    })
    await aborted(lease.signal)
    const other = await open()
    const next = await other.acquire('half-done', { waitMs: 10_000 })
    expect(performance.now()).toBeGreaterThan(await writing)
    await next.release()
  })

  test('5: leases and tokens outlive a crash of the server', async () => {
    const own = await startPostgres(['fsync=on'])
    try {
      const crashing = own.pool()
      const locks = await open({ pool: crashing, leaseMs: 20_000, requestTimeoutMs: 1_000 })
      const lease = await locks.acquire('crash')
      await own.process.kill()
      await own.process.restart()
      const other = await open({ pool: crashing, leaseMs: 20_000 })
      expect((await other.tryAcquire('crash')).status).toBe('taken')
      expect((await lease.extend()).status).toBe('extended')
      await lease.release()
      const next = await other.acquire('crash')
      expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
      await other.close()
      await locks.close()
      await crashing.end()
    } finally {
      await own.close()
    }
  })

  test('6: expiry and tokens follow the clock of the server, not of a client', async () => {
    const offset = 3_600_000
    const clock = (shift: number): Clock => ({
      ...systemClock,
      wallNow: () => systemClock.wallNow() + shift,
    })
    const ahead = await open({ clock: clock(offset) })
    const behind = await open({ clock: clock(-offset) })
    const lease = await ahead.acquire('clocks')
    expect((await behind.tryAcquire('clocks')).status).toBe('taken')
    await lease.release()
    const next = await behind.acquire('clocks')
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect(Math.abs(next.fencingToken / 1_000 - Date.now())).toBeLessThan(offset / 2)
    await next.release()
  })

  test('8: SERIALIZABLE as the default repeats what PostgreSQL refuses', async () => {
    const serializable = { options: '-c default_transaction_isolation=serializable', max: 12 }
    const locks = await open({ pool: pool(serializable), leaseMs: 5_000 })
    let last = 0
    await Promise.all(
      Array.from({ length: 12 }, async () => {
        const lease = await locks.acquire('serial', { waitMs: 30_000 })
        expect(lease.fencingToken).toBeGreaterThan(last)
        last = lease.fencingToken
        await lease.release()
      }),
    )
  })

  test('8: a rolled-back transaction leaves a hole in the tokens, never a repetition', async () => {
    const locks = await open()
    const tokens: number[] = []
    for (let round = 0; round < 6; round++) {
      await locks
        .transaction('holes', ({ fencingToken }) => {
          tokens.push(fencingToken)
          return round % 2 === 0 ? Promise.reject(new Error('no')) : Promise.resolve()
        })
        .catch(() => undefined)
    }
    expect(new Set(tokens).size).toBe(6)
    expect([...tokens].sort((a, b) => a - b)).toEqual(tokens)
  })

  test('9: tokens increase over a promoted standby that lacks the last leases', async () => {
    const primary = await startPostgres(['wal_level=replica', 'max_wal_senders=4'])
    const old = primary.pool()
    const locks = await open({ pool: old })
    await (await locks.acquire('promoted')).release()
    const standby = await startStandby(primary)
    try {
      const second = standby.pool()
      await expect(open({ pool: second })).rejects.toThrow('is a standby')
      standby.process.freeze()
      const lost = await locks.acquire('promoted')
      await locks.close()
      await old.end()
      await primary.process.kill()
      standby.process.thaw()
      await second.query('SELECT pg_promote()')
      const next = await (await open({ pool: second })).acquire('promoted')
      expect(next.fencingToken).toBeGreaterThan(lost.fencingToken)
      await next.release()
      await second.end()
    } finally {
      await standby.close()
      await primary.close()
    }
  })

  test('9: tokens increase over deleted rows and a clock that is set back', async ({ skip }) => {
    const answer = await compileShim()
    if (answer.status === 'absent') return skip(answer.reason)
    const { shim } = answer
    const own = await startPostgres([], undefined, shim.environment('postgres'))
    const clock = shim.clock('postgres')
    const db = own.pool()
    const hour = 3_600_000
    const prune = (): Promise<unknown> =>
      db.query(statementsFor('"redlock_leases"').prune, ['redlock'])
    const count = async (): Promise<number> =>
      (await db.query("SELECT FROM redlock_leases WHERE resource <> ''")).rows.length
    try {
      const locks = await open({ pool: db })
      for (const name of ['deleted', ['deleted', 'and another']]) {
        clock.step(hour)
        const lease = await locks.acquire(name)
        await lease.release()
        const rows = await count()
        await prune()
        expect(await count()).toBe(rows) // A release is no reason to delete a row.
        clock.step(25 * hour)
        await prune()
        expect(await count()).toBe(0)
        clock.step(-26 * hour)
        const next = await locks.acquire(name)
        expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
        await next.release()
        await prune()
      }
      await locks.close()
      await db.end()
    } finally {
      await own.close()
      shim.remove()
    }
  })

  test('10: an exhausted pool is unreachable, and its late grant is released', async () => {
    const narrow = pool({ max: 1 })
    const locks = await open({ pool: narrow })
    const busy = await narrow.connect()
    const outcome = await locks.tryAcquire('exhausted')
    expect(outcome).toMatchObject({ status: 'unreachable' })
    busy.release()
    const next = await locks.acquire('exhausted', { waitMs: 5_000 })
    await next.release()
  })

  test('10: a limit for idle transactions ends a transaction, and neither the lease nor the process', async () => {
    const strict = pool({ options: '-c idle_in_transaction_session_timeout=500' })
    const locks = await open({ pool: strict, leaseMs: 5_000 })
    const lease = await locks.acquire('idle')
    const writing = locks.transaction(lease, async ({ client }) => {
      await delay(1_500)
      await client.query({ text: 'SELECT 1', values: [] })
    })
    await expect(writing).rejects.toThrow()
    expect((await lease.extend()).status).toBe('extended')
    await locks.transaction(lease, ({ client }) => client.query({ text: 'SELECT 1', values: [] }))
    await lease.release()
  })

  test('an answer that came while the process stood still counts', async () => {
    const db = pool()
    const locks = await open({ pool: db, leaseMs: 10_000, requestTimeoutMs: 400 })
    await (await locks.acquire('stalled', { waitMs: 10_000 })).release()
    let blocks = true
    const stalls = asking(db, (client) => async (asked) => {
      const answer = client.query(asked)
      await new Promise(setImmediate) // It has left.
      const until = performance.now() + 800
      while (blocks && performance.now() < until);
      blocks = false
      return answer
    })
    const stalling = new PostgresLocks({
      pool: stalls,
      ...{ leaseMs: 10_000, requestTimeoutMs: 400, logger: silentLogger },
    })
    closers.add(() => stalling.close())
    expect(await stalling.tryAcquire('stalled')).toMatchObject({ status: 'granted' })
    expect(blocks).toBe(false)
  })

  describe('a transaction on a server that stands still ends, as the pool says', () => {
    const limits = { connectionTimeoutMillis: 500, query_timeout: 700 }
    const nothing = (): Promise<void> => Promise.resolve()
    const cases: Readonly<Record<string, (locks: PostgresLocks) => Promise<unknown>>> = {
      'before it begins': (locks) => {
        server.process.freeze()
        return locks.transaction('frozen', nothing)
      },
      'where no connection is open': (locks) => {
        server.process.freeze()
        const several = Array.from({ length: 3 }, () => locks.transaction('frozen', nothing))
        return Promise.any(several)
      },
      'in a statement of `write`': (locks) =>
        locks.transaction('frozen', ({ client }) => {
          server.process.freeze()
          return client.query({ text: 'SELECT 1', values: [] })
        }),
      'at its end': (locks) =>
        locks.transaction('frozen', () => {
          server.process.freeze()
          return nothing()
        }),
    }
    test.each(Object.entries(cases))('%s', async (_when, run) => {
      const db = pool(limits)
      const locks = await open({ pool: db })
      await locks.transaction('frozen', nothing)
      try {
        await expect(run(locks)).rejects.toThrow()
      } finally {
        server.process.thaw()
      }
      await until('it goes on', () =>
        locks.transaction('frozen', nothing).then(
          () => true,
          () => false,
        ),
      )
      expect(db.totalCount - db.idleCount).toBe(0)
    })

    test('without limits of the pool it ends at its commit, and says that it may have committed', async () => {
      const locks = await open({ maxLeaseMs: 2_000 })
      await locks.transaction('frozen', nothing)
      const late = delay(CLOSE_LIMIT_MS, 'still waiting', { ref: false })
      const ended = locks.transaction('frozen', () => {
        server.process.freeze()
        return nothing()
      })
      try {
        const said = /^It is not known whether the transaction was committed: .* within 2000 ms$/
        await expect(Promise.race([ended, late])).rejects.toThrow(said)
      } finally {
        server.process.thaw()
      }
    })

    test('without limits of the pool it does not begin', async () => {
      const locks = await open()
      await locks.transaction('frozen', nothing)
      server.process.freeze()
      try {
        const late = delay(CLOSE_LIMIT_MS, 'still waiting', { ref: false })
        const ended = Promise.race([locks.transaction('frozen', nothing), late])
        await expect(ended).rejects.toThrow('PostgreSQL did not answer within 1500 ms')
      } finally {
        server.process.thaw()
      }
    })
  })

  test('behind a silent cut a waiter looks by itself, and the session is opened again', async () => {
    const [cut, sound] = [await startProxy(server.port), await startProxy(server.port)]
    for (const proxy of [cut, sound]) closers.add(() => proxy.close())
    const through: FaultProxy[] = []
    const listen = (): Client => {
      const { port } = through.length === 0 ? cut : sound
      through.push(through.length === 0 ? cut : sound)
      return new Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
    }
    const [holder, locks] = [await open({ leaseMs: 20_000 }), await open({ listen })]
    const waitMs = 60_000
    const held = await holder.acquire('cut')
    const first = locks.acquire('cut', { waitMs })
    const listening = "SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    await until('it listens', async () => (await pool().query(listening)).rows.length > 0)
    await cut.drop()
    await held.release()
    await (await first).release()
    const again = await holder.acquire('cut', { waitMs })
    const second = locks.acquire('cut', { waitMs })
    await until('another session is opened', () => through.includes(sound))
    await again.release()
    await (await second).release()
  })

  test('closes while the server stands still', async () => {
    const holder = await open({ leaseMs: 30_000 })
    const lease = await holder.acquire('silent')
    const db = pool({ idleTimeoutMillis: 0 })
    await db.query('SELECT')
    const sockets = (): number =>
      process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
    const before = sockets()
    const locks = await openLocks(server.url, { leaseMs: 2_000, logger: silentLogger })
    const waiting = expect(locks.acquire('silent', { waitMs: 60_000 })).rejects.toThrow('closed')
    await until('it listens', async () => {
      const { rows } = await db.query("SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
      return rows.length > 0
    })
    server.process.freeze()
    try {
      const late = delay(CLOSE_LIMIT_MS, 'still open', { ref: false })
      expect(await Promise.race([locks.close(), late])).toBeUndefined()
      // Else they would keep the process alive.
      await until('its sockets are gone', () => sockets() <= before)
    } finally {
      server.process.thaw()
    }
    await waiting
    await lease.release()
  })

  test('a server without durable commits is refused', async () => {
    const careless = pool({ options: '-c synchronous_commit=off' })
    const locks = closers.closing(new PostgresLocks({ pool: careless, logger: silentLogger }))
    await expect(locks.ready()).rejects.toThrow('synchronous_commit')
  })

  test('an abandoned attempt is refused when it arrives late', async () => {
    const proxy = closers.closing(await startProxy(server.port))
    const options = { host: '127.0.0.1', port: proxy.port, user: 'postgres', database: 'postgres' }
    const slow = pool({ connectionString: undefined, ...options, max: 2 })
    await Promise.all([slow.query('SELECT pg_sleep(0.05)'), slow.query('SELECT pg_sleep(0.05)')])
    const locks = await open({ pool: slow, leaseMs: 20_000, requestTimeoutMs: 1_000 })
    await (await locks.acquire('late')).release()
    const hold = proxy.holdRequests()
    const outcome = await locks.tryAcquire('late')
    expect(outcome.status).toBe('unreachable')
    hold.release()
    const other = await open()
    await (await other.acquire('late', { waitMs: 5_000 })).release()
  })

  describe('transaction', () => {
    test('writes under a lease and refuses the holder of a lease that another one followed', async () => {
      const db = pool()
      const locks = await open({ pool: db })
      await db.query('CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL)')
      await db.query("INSERT INTO accounts VALUES ('a', 0)")
      const text = 'UPDATE accounts SET balance = balance + $1'
      const write = (lease: Parameters<PostgresLocks['transaction']>[0], amount: number) =>
        locks.transaction(lease, ({ client }) => client.query({ text, values: [amount] }))
      const first = await locks.acquire('a')
      await write(first, 1)
      await aborted(first.signal)
      const second = await locks.acquire('a', { waitMs: 5_000 })
      await expect(write(first, 100)).rejects.toMatchObject({ code: 'LEASE_LOST' })
      const taken = write('a', 1_000)
      await expect(taken).rejects.toMatchObject({ code: 'RESOURCE_TAKEN', resource: 'a' })
      const said = new RegExp(`is held by ${describeToken(second.token).replace(/[()]/g, '.')} for`)
      await expect(taken).rejects.toThrow(said)
      await write(second, 10_000)
      await second.release()
      await write('a', 100_000)
      const { rows } = await db.query('SELECT balance FROM accounts')
      expect(rows).toEqual([{ balance: 110_001 }])
    })

    test('begins under no lease that another lease or transaction followed', async () => {
      const db = pool()
      const locks = await open({ pool: db, leaseMs: 200, requestTimeoutMs: 200 })
      const nothing = (): Promise<void> => Promise.resolve()
      const follow = async (): Promise<boolean> => {
        const followed = locks.transaction('followed', nothing)
        return followed.then(
          () => true,
          () => false,
        )
      }
      for (const name of ['followed', ['followed', 'more']]) {
        const lease = await locks.acquire(name)
        await aborted(lease.signal)
        await until('a transaction follows', follow)
        const writing = locks.transaction(lease, nothing)
        await expect(writing).rejects.toMatchObject({ code: 'LEASE_LOST' })
        // The clock of the server is set back: the lease is over nevertheless.
        await db.query("UPDATE redlock_leases SET expires_at = now() + interval '1 s'")
        const { extend } = statementsFor('"redlock_leases"')
        const values = ['redlock', lease.resources, lease.token, lease.leaseMs]
        expect((await db.query(extend, values)).rows).toEqual([])
        await db.query("UPDATE redlock_leases SET expires_at = 'epoch'")
      }
    })

    test('rejects where PostgreSQL rolls it back at its commit', async () => {
      const db = pool()
      const locks = await open({ pool: db })
      await db.query('CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)')
      const insert = { text: 'INSERT INTO late VALUES (1)', values: [] }
      const twice = locks.transaction('late', async ({ client }) => {
        await client.query(insert)
        await client.query(insert)
      })
      await expect(twice).rejects.toMatchObject({ code: '23505' })
      const careless = locks.transaction('late', async ({ client }) => {
        await client.query(insert)
        await client.query({ text: 'SELECT 1 / 0', values: [] }).catch(() => undefined)
      })
      await expect(careless).rejects.toThrow('rolled the transaction back')
      expect((await db.query('SELECT FROM late')).rows).toEqual([])
    })

    test('locks every row, also where one is deleted meanwhile', async () => {
      const db = pool()
      const locks = await open({ pool: db })
      await (await locks.acquire(['row-1', 'row-2'])).release()
      const { prune } = statementsFor('"redlock_leases"')
      const pruned = asking(db, (client) => {
        let statements = 0
        return async (asked) => {
          // Between the second statement of the transaction and its third one.
          if (++statements === 3) await db.query(prune, ['redlock'])
          return client.query(asked)
        }
      })
      const hurried = await open({ pool: pruned })
      await db.query("UPDATE redlock_leases SET fencing_token = 1 WHERE resource LIKE 'row-%'")
      await hurried.transaction(['row-1', 'row-2'], async ({ client, fencingToken }) => {
        const text = "SELECT fencing_token FROM redlock_leases WHERE resource LIKE 'row-%'"
        const { rows } = await client.query({ text, values: [] })
        const token = { fencing_token: String(fencingToken) }
        expect(rows).toEqual([token, token])
      })
    })

    test('takes the lease of a job, which a processor is given', async () => {
      const locks = await open({ leaseMs: 5_000 })
      const lease = await locks.acquire(['of-a-job', 'a + b'])
      const running = { job: { token: 'of BullMQ' }, signal: lease.signal }
      const jobLease: JobLease = new SteppedLease(running as never, lease)
      const token = await locks.transaction(jobLease, ({ fencingToken }) =>
        Promise.resolve(fencingToken),
      )
      expect(token).toBe(lease.fencingToken)
      await lease.release()
      await expect(locks.transaction(jobLease, () => Promise.resolve())).rejects.toMatchObject({
        code: 'LEASE_LOST',
      })
    })

    test('lets the lease be renewed while it lasts, and keeps others out', async () => {
      const locks = await open()
      const other = await open()
      const lease = await locks.acquire('long')
      await locks.transaction(lease, async () => {
        expect((await lease.extend()).status).toBe('extended')
        expect((await other.tryAcquire('long')).status).not.toBe('granted')
        await lease.release()
        expect((await other.tryAcquire('long')).status).not.toBe('granted')
      })
      await (await other.acquire('long')).release()
    })

    test('runs one at a time where the row itself is the lock', async () => {
      const locks = await open({ pool: pool({ max: 20 }), leaseMs: 5_000 })
      let [running, most] = [0, 0]
      const tokens: number[] = []
      await Promise.all(
        Array.from({ length: 15 }, () =>
          locks.transaction(['row', 'lock'], async ({ client, fencingToken }) => {
            most = Math.max(most, ++running)
            await client.query({ text: 'SELECT 1', values: [] })
            tokens.push(fencingToken)
            running--
          }),
        ),
      )
      expect(most).toBe(1)
      expect([...tokens].sort((a, b) => a - b)).toEqual(tokens)
    })
  })

  test('a name that PostgreSQL cannot store is refused, and is no server that is away', async () => {
    const locks = await open()
    const refused = 'a string without NUL'
    await expect(locks.tryAcquire('a\0b')).rejects.toThrow(refused)
    await expect(locks.acquire(['a', 'a\0b'])).rejects.toThrow(refused)
    await expect(locks.using('a\0b', {}, () => 'ran')).rejects.toThrow(refused)
    await expect(locks.inspect('a\0b')).rejects.toThrow(refused)
    await expect(locks.transaction('a\0b', () => Promise.resolve())).rejects.toThrow(refused)
  })

  test('bad options are refused by name', () => {
    expect(() => new PostgresLocks({} as PostgresLocksOptions)).toThrow('`pool`')
    expect(() => new PostgresLocks({ pool: pool(), table: 'a"; DROP' })).toThrow('`table`')
    expect(() => new PostgresLocks({ pool: pool(), leasems: 1 } as never)).toThrow('`leaseMs`')
  })
})
