import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { StaleTokenError } from '../../src/index.ts'
import {
  FencedTable,
  fencedPut,
  fencedRedis,
  type FencedObjects,
  type Row,
  type Statement,
} from '../../src/fenced/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { startPostgres, type PostgresServer } from '../../scripts/lock-servers/postgres-server.ts'
import { findProgram } from '../../scripts/find-program.ts'
import { describeService } from '../support/describe-service.ts'
import { noMariaDb, startMariaDb } from './mariadb-server.ts'
import { MYSQL, SQLITE, SqlSession, type Dialect } from './sql-session.ts'

const lease = (fencingToken: number): { fencingToken: number } => ({ fencingToken })
/** As large as those of a Redlock: microseconds since 1970. */
const LARGE = 1_763_000_000_000_000

/**
 * What must hold of any store: the last accepted write has the largest token, and older ones fail.
 */
interface Store {
  write(token: number, value: string): Promise<unknown>
  read(): Promise<{ token: number; value: string }>
  /** The token of every write, in the order in which the store did them. */
  log(): Promise<readonly number[]>
}

async function neverOlderAfterNewer(open: () => Promise<Store>, numRuns = 60): Promise<void> {
  const holders = fc.array(fc.array(fc.nat(30), { minLength: 1, maxLength: 4 }), {
    minLength: 2,
    maxLength: 6,
  })
  await fc.assert(
    fc.asyncProperty(holders, async (writers) => {
      const store = await open()
      const accepted: { token: number; value: string }[] = []
      await Promise.all(
        writers.map(async (tokens, writer) => {
          for (const [index, small] of tokens.entries()) {
            const token = LARGE + small
            const value = `${token}/${writer}/${index}`
            try {
              await store.write(token, value)
              accepted.push({ token, value })
            } catch (error) {
              if (!(error instanceof StaleTokenError)) throw error
            }
          }
        }),
      )
      const largest = Math.max(...writers.flat()) + LARGE
      const stored = await store.read()
      expect(stored.token).toBe(largest)
      expect(stored.value.startsWith(`${largest}/`)).toBe(true)
      expect(accepted.map(({ value }) => value)).toContain(stored.value)
      await expect(store.write(largest - 1, 'older')).rejects.toThrow(StaleTokenError)
      expect(await store.read()).toEqual(stored)
      const log = await store.log()
      expect(log).toHaveLength(accepted.length)
      expect(log).toEqual([...log].sort((a, b) => a - b))
    }),
    { numRuns },
  )
}

describeService('postgres', 'a fenced table of PostgreSQL', () => {
  let server: PostgresServer
  let pool: Pool
  const accounts = new FencedTable({ table: 'accounts', key: ['id'] })
  const key = { id: 'a' }

  beforeAll(async () => {
    server = await startPostgres()
    pool = server.pool({ max: 12 })
    await pool.query(
      'CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL DEFAULT 0, note text, fencing_token bigint)',
    )
    await pool.query(`
      CREATE TABLE writes (seq bigserial PRIMARY KEY, id text, token bigint);
      CREATE FUNCTION log_write() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO writes (id, token) VALUES (NEW.id, NEW.fencing_token); RETURN NULL; END $$;
      CREATE TRIGGER log_write AFTER INSERT OR UPDATE ON accounts
        FOR EACH ROW EXECUTE FUNCTION log_write()`)
  })
  afterAll(async () => {
    await pool.end()
    await server.close()
  })

  async function balance(): Promise<unknown> {
    const { rows } = await pool.query<Row>("SELECT balance FROM accounts WHERE id = 'a'")
    return rows[0]?.['balance']
  }

  test('makes a new row, accepts several writes of one lease, refuses an older lease', async () => {
    await pool.query('DELETE FROM accounts')
    await accounts.write(pool, lease(LARGE), key, { balance: 1 })
    await accounts.write(pool, lease(LARGE), key, { balance: 2 })
    await accounts.write(pool, lease(LARGE + 1), key, { balance: 3 })
    const stale = accounts.write(pool, lease(LARGE), key, { balance: 4 })
    await expect(stale).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      target: 'accounts a',
      fencingToken: LARGE,
      storedToken: LARGE + 1,
    })
    await expect(accounts.update(pool, lease(LARGE), key, { balance: 5 })).rejects.toThrow(
      StaleTokenError,
    )
    expect(await balance()).toBe(3)
  })

  test('accepts any token in a row without one', async () => {
    await pool.query("DELETE FROM accounts; INSERT INTO accounts VALUES ('a', 1, NULL, NULL)")
    expect(await accounts.update(pool, lease(3), key, { balance: 2 })).toBe(1)
    await pool.query('UPDATE accounts SET fencing_token = NULL')
    await accounts.write(pool, lease(1), key, { balance: 3 })
    expect(await balance()).toBe(3)
  })

  test('an update of a missing row matches none', async () => {
    expect(await accounts.update(pool, lease(1), { id: 'nobody' }, { balance: 1 })).toBe(0)
  })

  test('claim fences whatever its transaction writes', async () => {
    await pool.query('DELETE FROM accounts')
    const [old, young] = await Promise.all([pool.connect(), pool.connect()])
    await old.query('BEGIN')
    const row = await accounts.claim(old, lease(10), key, { balance: 7 })
    expect(row).toMatchObject({ id: 'a', balance: 7, fencing_token: '10' })
    await young.query('BEGIN')
    const claiming = accounts.claim(young, lease(11), key)
    await old.query("UPDATE accounts SET balance = balance + 1 WHERE id = 'a'")
    await old.query('COMMIT')
    expect(await claiming).toMatchObject({ balance: 8 })
    await young.query('COMMIT')
    await old.query('BEGIN')
    await expect(accounts.claim(old, lease(10), key)).rejects.toThrow(StaleTokenError)
    await old.query('ROLLBACK')
    old.release()
    young.release()
  })

  test('a claim makes no row without the token of who made it', async () => {
    const id = 'claimed'
    await accounts.claim(pool, lease(10), { id }, { note: 'made' })
    const { rows } = await pool.query<Row>('SELECT token FROM writes WHERE id = $1', [id])
    expect(rows).toEqual([{ token: '10' }])
  })

  test('works with compound keys, other column names and a schema', async () => {
    await pool.query(
      'CREATE SCHEMA app; CREATE TABLE app.stock (shop int, item text, n int, "leaseToken" bigint, PRIMARY KEY (shop, item))',
    )
    const stock = new FencedTable({
      table: 'app.stock',
      key: ['shop', 'item'],
      tokenColumn: 'leaseToken',
    })
    const place = { item: 'pen', shop: 7 }
    await stock.write(pool, lease(2), place, { n: 5 })
    await expect(stock.write(pool, lease(1), place, { n: 6 })).rejects.toThrow(StaleTokenError)
    await expect(stock.write(pool, lease(3), { shop: 7 }, { n: 6 })).rejects.toThrow('`key`')
    const { rows } = await pool.query('SELECT n FROM app.stock')
    expect(rows).toEqual([{ n: 5 }])
  })

  test('an integer column takes small tokens; the error for a large one says what to do', async () => {
    await pool.query('CREATE TABLE small (id text PRIMARY KEY, v int, fencing_token integer)')
    const small = new FencedTable({ table: 'small', key: ['id'] })
    await small.write(pool, lease(5), key, { v: 1 })
    await expect(small.write(pool, lease(4), key, { v: 2 })).rejects.toThrow(StaleTokenError)
    await expect(small.write(pool, lease(LARGE), key, { v: 3 })).rejects.toThrow('a bigint')
    await expect(small.update(pool, lease(LARGE), key, { v: 3 })).rejects.toThrow('a bigint')
  })

  test('refuses an older write after a newer one', async () => {
    let row = 0
    await neverOlderAfterNewer(() => {
      const id = `row-${row++}`
      return Promise.resolve({
        write: (token, note) => accounts.write(pool, lease(token), { id }, { note }),
        read: async () => {
          const { rows } = await pool.query<{ note: string; fencing_token: string }>(
            'SELECT note, fencing_token FROM accounts WHERE id = $1',
            [id],
          )
          return { token: Number(rows[0]?.fencing_token), value: rows[0]?.note ?? '' }
        },
        log: async () => {
          const text = 'SELECT token FROM writes WHERE id = $1 ORDER BY seq'
          const { rows } = await pool.query<{ token: string }>(text, [id])
          return rows.map(({ token }) => Number(token))
        },
      })
    })
  }, 60_000)
})

test.each([undefined, null, Number.NaN, 1.5, -1, '7', 2 ** 53])(
  'what has the token %s, which none is, or comes without a token writes nothing',
  async (given) => {
    const calls: unknown[] = []
    const call = (...args: unknown[]): Promise<never> => {
      calls.push(args)
      return Promise.reject(new Error('called'))
    }
    const table = new FencedTable({ table: 'accounts', key: ['id'] })
    const none = lease(given as number)
    for (const writing of [
      table.write({ query: call }, none, { id: 'a' }, { balance: 1 }),
      table.update({ query: call }, none, { id: 'a' }, { balance: 1 }),
      table.claim({ query: call }, none, { id: 'a' }),
      fencedRedis({ eval: call }, none, 't', ['k'], [['SET', 'k', 1]]),
      fencedPut({ head: call, put: call }, none, 'k', ''),
    ]) {
      await expect(writing).rejects.toThrow('Expected `lease.fencingToken` to be an integer')
    }
    expect(calls).toEqual([])
  },
)

test('refuses names that are not those of SQL', () => {
  expect(() => new FencedTable({ table: 'a"b', key: ['id'] })).toThrow('`table`')
  expect(() => new FencedTable({ table: 'a', key: [] })).toThrow('`key`')
  const mistyped = { table: 'a', key: ['id'], tokenColum: 'token' }
  expect(() => new FencedTable(mistyped)).toThrow('Is it `tokenColumn`?')
  const table = new FencedTable({ table: 'a', key: ['id'] })
  expect(() => table.updateStatement(lease(1), { id: 1 }, { 'x = 1 --': 1 })).toThrow('`column`')
})

test('a duplicate in another unique column of MySQL is no stale token', async () => {
  const table = new FencedTable({ table: 'accounts', key: ['id'], dialect: 'mysql' })
  const duplicate = Object.assign(new Error("Duplicate entry 'x' for key 'email'"), { errno: 1062 })
  const rows: unknown[] = []
  const client = {
    query: (text: string) =>
      text.startsWith('INSERT')
        ? Promise.reject(duplicate)
        : Promise.resolve({ rowCount: 0, rows }),
  }
  const write = (): Promise<void> => table.write(client, lease(1), { id: 'a' }, { email: 'x' })
  await expect(write()).rejects.toBe(duplicate)
  rows.push({ id: 'a', fencing_token: 2 })
  await expect(write()).rejects.toMatchObject({ code: 'STALE_TOKEN', storedToken: 2 })
})

/** Where its sessions lead, and how to end it. */
interface Database {
  readonly client: readonly string[]
  close(): Promise<void>
}

const noSqlite = findProgram('sqlite3') === undefined
if (noMariaDb) console.warn('Skipped: on Debian or Ubuntu: apt-get install mariadb-server')
if (noSqlite) console.warn('Skipped: on Debian or Ubuntu: apt-get install sqlite3')

const DATABASES: readonly {
  readonly name: string
  readonly dialect: 'mysql' | 'sqlite'
  readonly isMissing: boolean
  readonly session: Dialect
  readonly start: () => Promise<Database>
  readonly schema: string
}[] = [
  {
    ...{ name: 'MySQL, on MariaDB', dialect: 'mysql', isMissing: noMariaDb, session: MYSQL },
    start: async () => {
      const { client, close } = await startMariaDb()
      return { client: [...client, '--unbuffered', '-N', '-vvv', '--force'], close }
    },
    schema: `
      CREATE DATABASE IF NOT EXISTS fenced;
      CREATE TABLE fenced.accounts (
        id varchar(40) PRIMARY KEY, note varchar(80), extra varchar(80), fencing_token bigint);
      CREATE TABLE fenced.writes (seq int PRIMARY KEY AUTO_INCREMENT, id varchar(40), token bigint);
      CREATE TRIGGER fenced.log_insert AFTER INSERT ON fenced.accounts
        FOR EACH ROW INSERT INTO fenced.writes (id, token) VALUES (NEW.id, NEW.fencing_token);
      CREATE TRIGGER fenced.log_update AFTER UPDATE ON fenced.accounts
        FOR EACH ROW INSERT INTO fenced.writes (id, token) VALUES (NEW.id, NEW.fencing_token);`,
  },
  {
    ...{ name: 'SQLite', dialect: 'sqlite', isMissing: noSqlite, session: SQLITE },
    start: () => {
      const directory = mkdtempSync(join(tmpdir(), 'fenced-'))
      return Promise.resolve({
        client: ['sqlite3', '-cmd', '.timeout 20000', join(directory, 'fenced.db')],
        close: () => {
          rmSync(directory, { recursive: true })
          return Promise.resolve()
        },
      })
    },
    schema: `
      CREATE TABLE accounts (
        id text PRIMARY KEY, note text, extra text, fencing_token integer);
      CREATE TABLE writes (seq integer PRIMARY KEY AUTOINCREMENT, id text, token integer);
      CREATE TRIGGER log_insert AFTER INSERT ON accounts
        BEGIN INSERT INTO writes (id, token) VALUES (NEW.id, NEW.fencing_token); END;
      CREATE TRIGGER log_update AFTER UPDATE ON accounts
        BEGIN INSERT INTO writes (id, token) VALUES (NEW.id, NEW.fencing_token); END;`,
  },
]

describe.each(DATABASES)('statements of $name', (database) => {
  const { dialect } = database
  const table = dialect === 'mysql' ? 'fenced.accounts' : 'accounts'
  const accounts = new FencedTable({ table, key: ['id'], dialect })
  let server: Database
  let sessions: SqlSession[] = []

  beforeAll(async () => {
    if (database.isMissing) return
    server = await database.start()
    sessions = Array.from({ length: 6 }, () => new SqlSession(server.client, database.session))
    await sessions[0]?.run(database.schema)
  })
  afterAll(async () => {
    await Promise.all(sessions.map((session) => session.close()))
    if (!database.isMissing) await server.close()
  })

  /** As a user's driver runs them. */
  async function write(session: SqlSession, token: number, id: string, note: string) {
    for (const statement of accounts.writeStatements(lease(token), { id }, { note })) {
      if ((await matched(session, statement)) > 0) return
    }
    throw new StaleTokenError(id, token, undefined)
  }

  /** MySQL refuses to insert a row that is there. */
  function matched(session: SqlSession, statement: Statement): Promise<number> {
    return session.execute(statement).catch((error: unknown) => {
      if (String(error).includes('ERROR 1062')) return 0
      throw error
    })
  }

  test.skipIf(database.isMissing)('write new rows, rows without a token, and again', async () => {
    const [session] = sessions
    if (session === undefined) throw new Error('There is no session')
    await write(session, LARGE, "o'hara", 'new')
    await write(session, LARGE, "o'hara", 'again')
    await write(session, LARGE, "o'hara", 'again')
    await expect(write(session, LARGE - 1, "o'hara", 'stale')).rejects.toThrow(StaleTokenError)
    await session.run(`UPDATE ${table} SET fencing_token = NULL;`)
    await write(session, 1, "o'hara", 'any')
    const update = (token: number, id: string): Promise<number> =>
      session.execute(accounts.updateStatement(lease(token), { id }, { note: 'update' }))
    expect(await update(0, "o'hara")).toBe(0)
    expect(await update(2, "o'hara")).toBe(1)
    expect(await update(2, 'missing')).toBe(0)
  })

  test.skipIf(database.isMissing)('write nothing where they are refused', async () => {
    const [old, young] = sessions
    if (old === undefined || young === undefined) throw new Error('There is no session')
    const statements = (id: string): readonly Statement[] =>
      accounts.writeStatements(lease(LARGE), { id }, { extra: 'old' })
    for (const [before] of statements('any').entries()) {
      const id = `between-${before}`
      let isWritten = false
      for (const [index, statement] of statements(id).entries()) {
        if (index === before) await write(young, LARGE + 1, id, 'young')
        isWritten ||= (await matched(old, statement)) > 0
        if (isWritten) break
      }
      const said = await old.run(`SELECT extra FROM ${table} WHERE id = '${id}';`)
      expect(/^\W*old\W*$/m.test(said)).toBe(isWritten)
    }
  })

  test.skipIf(database.isMissing || dialect === 'sqlite')(
    'write nothing where a value does not fit',
    async () => {
      const [session] = sessions
      if (session === undefined) throw new Error('There is no session')
      const client = {
        query: async ({ text, values }: Statement) => ({
          rowCount: await session.execute({ text, values }).catch((error: unknown) => {
            const [, errno] = /ERROR (\d+)/.exec(String(error)) ?? []
            throw Object.assign(new Error(String(error)), { errno: Number(errno) })
          }),
          rows: [],
        }),
      }
      const put = (note: string): Promise<void> =>
        accounts.write(
          { query: (text, values) => client.query({ text, values }) },
          lease(LARGE),
          { id: 'fits' },
          { note },
        )
      await expect(put('x'.repeat(100))).rejects.toThrow('too long')
      const read = (): Promise<string> =>
        session.run(`SELECT CONCAT('note is ', note) FROM ${table} WHERE id = 'fits';`)
      expect(await read()).not.toContain('note is x')
      await put('short')
      await put('shorter')
      expect(await read()).toContain('note is shorter')
    },
  )

  test.skipIf(database.isMissing)(
    'refuse an older write after a newer one',
    async () => {
      let rows = 0
      let next = 0
      const marked = (said: string, mark: string): string[] =>
        [...said.matchAll(new RegExp(`${mark}=([^=]*)=`, 'g'))].map(([, value = '']) => value)
      const concat = (mark: string, column: string): string =>
        dialect === 'mysql'
          ? `CONCAT('${mark}', '=', ${column}, '=')`
          : `'${mark}' || '=' || ${column} || '='`
      await neverOlderAfterNewer(() => {
        const id = `row-${rows++}`
        const session = (): SqlSession => sessions[next++ % sessions.length] as SqlSession
        return Promise.resolve({
          write: (token, value) => write(session(), token, id, value),
          read: async () => {
            const columns = `${concat('note', 'note')}, ${concat('token', 'fencing_token')}`
            const said = await session().run(`SELECT ${columns} FROM ${table} WHERE id = '${id}';`)
            return { value: marked(said, 'note')[0] ?? '', token: Number(marked(said, 'token')[0]) }
          },
          log: async () => {
            const from = table.replace('accounts', 'writes')
            const text = `SELECT ${concat('token', 'token')} FROM ${from} WHERE id = '${id}' ORDER BY seq;`
            return marked(await session().run(text), 'token').map(Number)
          },
        })
      }, 20)
    },
    120_000,
  )
})

describe('fenced commands of Redis', () => {
  let server: TestServer
  let redis: Redis
  beforeAll(async () => {
    server = await startServer({ name: 'fenced' })
    redis = new Redis(server.url)
  })
  afterAll(async () => {
    await redis.quit()
    await server.close()
  })

  test('run together, or not at all', async () => {
    const deposit = (token: number, amount: number): Promise<readonly unknown[]> =>
      fencedRedis(
        redis,
        lease(token),
        'account:token',
        ['account'],
        [
          ['HINCRBY', 'account', 'balance', amount],
          ['HGET', 'account', 'absent'],
          ['HGETALL', 'account'],
        ],
      )
    expect(await deposit(LARGE, 5)).toEqual([5, null, ['balance', '5']])
    expect(await deposit(LARGE, 5)).toMatchObject([10, null, {}])
    await deposit(LARGE + 1, 1)
    await expect(deposit(LARGE, 100)).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      target: 'account:token',
      storedToken: LARGE + 1,
    })
    expect(await redis.hget('account', 'balance')).toBe('11')
  })

  test('need the whole names of keys: a prefix of the client would stand before some', async () => {
    const prefixed = new Redis(server.url, { keyPrefix: 'app:' })
    const writing = fencedRedis(prefixed, lease(1), 'p:token', ['p'], [['SET', 'p', 1]])
    await expect(writing).rejects.toThrow('a client without `keyPrefix`')
    await prefixed.quit()
    expect(await redis.keys('*p:*')).toEqual([])
  })

  test('run none where one is too long for a script, or empty', async () => {
    const values = Array.from({ length: 7_000 }, String)
    const first = ['SET', 'long:first', 1] as const
    for (const command of [['RPUSH', 'long', ...values], []] as unknown as [['GET']]) {
      const writing = fencedRedis(redis, lease(1), 'long:token', ['long'], [first, command])
      await expect(writing).rejects.toThrow('Expected `commands[1].length` to be an integer from 1')
    }
    expect(await redis.keys('long*')).toEqual([])
    const fits = ['RPUSH', 'long', ...values.slice(2)] as const
    expect(await fencedRedis(redis, lease(1), 'long:token', ['long'], [fits])).toEqual([6_998])
  })

  test('keep bytes as they are', async () => {
    const bytes = Buffer.from([0, 255, 128, 10, 13])
    await fencedRedis(redis, lease(1), 'b:token', ['b'], [['SET', 'b', bytes]])
    expect(await redis.getBuffer('b')).toEqual(bytes)
  })

  test('refuse an older write after a newer one', async () => {
    let key = 0
    await neverOlderAfterNewer(() => {
      const name = `row-${key++}`
      return Promise.resolve({
        write: (token, value) =>
          fencedRedis(
            redis,
            lease(token),
            `${name}:token`,
            [name, `${name}:log`],
            [
              ['SET', name, value],
              ['RPUSH', `${name}:log`, token],
            ],
          ),
        read: async () => ({
          token: Number(await redis.get(`${name}:token`)),
          value: (await redis.get(name)) ?? '',
        }),
        log: async () => (await redis.lrange(`${name}:log`, 0, -1)).map(Number),
      })
    })
  })
})

describe('fenced objects', () => {
  /** Conditional writes over HTTP, as object stores have them. */
  const stored = new Map<string, { etag: string; token: string; body: string }>()
  const log: { readonly name: string; readonly token: number }[] = []
  let server: Server
  let url = ''
  let writes = 0
  beforeAll(async () => {
    server = createServer((request, response) => {
      const name = request.url ?? ''
      const parts: Buffer[] = []
      request.on('data', (part: Buffer) => parts.push(part))
      request.on('end', () => {
        const old = stored.get(name)
        if (request.method === 'HEAD') {
          if (old !== undefined) response.setHeader('etag', old.etag)
          if (old !== undefined) response.setHeader('x-amz-meta-fencing-token', old.token)
          response.writeHead(old === undefined ? 404 : 200).end()
          return
        }
        const { 'if-match': match, 'if-none-match': none } = request.headers
        const holds = none === '*' ? old === undefined : match === old?.etag
        if (holds) {
          const token = String(request.headers['x-amz-meta-fencing-token'])
          log.push({ name, token: Number(token) })
          stored.set(name, { etag: `"${writes++}"`, token, body: Buffer.concat(parts).toString() })
        }
        response.writeHead(holds ? 200 : 412).end()
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => {
    server.close()
    server.closeAllConnections()
  })

  const objects: FencedObjects<string> = {
    head: async (key) => {
      const { status, headers } = await fetch(`${url}/${key}`, { method: 'HEAD' })
      if (status === 404) return undefined
      const token = Number(headers.get('x-amz-meta-fencing-token'))
      return { etag: headers.get('etag') ?? '', fencingToken: token }
    },
    put: async (key, body, token, etag) => {
      const condition = etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag }
      const headers = { ...condition, 'x-amz-meta-fencing-token': String(token) }
      return (await fetch(`${url}/${key}`, { method: 'PUT', body, headers })).ok
    },
  }

  test('refuse an older write after a newer one', async () => {
    let key = 0
    await neverOlderAfterNewer(() => {
      const name = `object-${key++}`
      return Promise.resolve({
        write: (token, value) => fencedPut(objects, lease(token), name, value),
        read: () => {
          const { token, body } = stored.get(`/${name}`) ?? { token: '', body: '' }
          return Promise.resolve({ token: Number(token), value: body })
        },
        log: () =>
          Promise.resolve(log.flatMap((one) => (one.name === `/${name}` ? [one.token] : []))),
      })
    })
  }, 60_000)
})
