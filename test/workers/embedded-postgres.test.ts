import { once, type EventEmitter } from 'node:events'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../workers/embedded-postgres.ts'

/** The client's messages one by one; part of pg, but not of its types. */
interface Wire extends EventEmitter {
  readonly stream: { destroy(): void }
  parse(query: { text: string }): void
  bind(config: object): void
  execute(config: object): void
  sync(): void
}

let postgres: EmbeddedPostgres
const open: pg.Client[] = []

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(postgres.url)
  client.on('error', () => undefined)
  open.push(client)
  await client.connect()
  return client
}

beforeAll(async () => {
  postgres = await startEmbeddedPostgres()
  const client = await connect()
  await client.query('CREATE TABLE counter (value int); INSERT INTO counter VALUES (0)')
})

afterAll(async () => {
  await Promise.allSettled(open.map((client) => client.end()))
  await postgres.close()
})

describe('the embedded PostgreSQL', () => {
  it('runs the parts of a query together while another client sends one', async () => {
    const { connection } = (await connect()) as unknown as { connection: Wire }
    const other = await connect()
    connection.parse({ text: "SELECT 'mine'" })
    await other.query('SELECT $1::text', ['theirs'])
    const answer = once(connection, 'dataRow') as Promise<[{ fields: Buffer[] }]>
    connection.bind({})
    connection.execute({})
    connection.sync()
    const [{ fields }] = await answer
    expect(fields.map(String)).toEqual(['mine'])
  })

  it('never mixes two transactions', async () => {
    const clients = await Promise.all(Array.from({ length: 3 }, connect))
    const rounds = clients.map(async (client) => {
      for (let round = 0; round < 20; round += 1) {
        await client.query('BEGIN')
        const { rows } = await client.query<{ value: number }>('SELECT value FROM counter')
        await client.query('UPDATE counter SET value = $1', [(rows[0]?.value ?? 0) + 1])
        await client.query('COMMIT')
      }
    })
    await Promise.all(rounds)
    const [client] = clients
    expect((await client?.query('SELECT value FROM counter'))?.rows).toEqual([{ value: 60 }])
  })

  it('reports an error to its client and answers the next query', async () => {
    const client = await connect()
    await expect(client.query('SELECT $1::int', ['x'])).rejects.toThrow('invalid input syntax')
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  it('undoes the transaction of a client that vanished', async () => {
    const client = await connect()
    await client.query('BEGIN')
    await client.query('UPDATE counter SET value = -1')
    const { connection } = client as unknown as { connection: Wire }
    connection.stream.destroy()
    const other = await connect()
    const { rows } = await other.query<{ value: number }>('SELECT value FROM counter')
    expect(rows[0]?.value).not.toBe(-1)
  })
})
