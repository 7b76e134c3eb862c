import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../workers/embedded-postgres.ts'
import { StaleTokenError } from '../../src/fenced/index.ts'
import { Ledger, type OpenAccount } from '../../workers/ledger.ts'
import { isRight } from '../../workers/ledger-audit.ts'
import { seal } from '../../workers/seal.ts'

/** Set LEDGER_TEST_DATABASE_URL to run the same tests on a PostgreSQL server. */
const serverUrl = process.env['LEDGER_TEST_DATABASE_URL']
let embedded: EmbeddedPostgres | undefined
let url: string
let ledger: Ledger
let customer: string
let number = 0

beforeAll(async () => {
  if (serverUrl === undefined) embedded = await startEmbeddedPostgres()
  url = serverUrl ?? embedded?.url ?? ''
  ledger = await Ledger.connect(url)
})

afterAll(async () => {
  await ledger.close()
  await embedded?.close()
})

beforeEach(async () => {
  number += 1
  customer = `customer ${number}`
  const client = new pg.Client(url)
  await client.connect()
  await client.query('TRUNCATE accounts, entries, refusals')
  await client.end()
})

const as = (jobId: string, fencingToken: number) => ({
  ...{ jobId, customer, fencingToken },
  worker: 'w',
})

function post(jobId: string, fencingToken: number, from: OpenAccount, amount: number) {
  const balanceAfter = from.balance + amount
  return ledger.post({
    ...as(jobId, fencingToken),
    ...{ amount, balanceBefore: from.balance, balanceAfter },
    seal: seal(from.seal, { jobId, customer, amount, balanceAfter }),
  })
}

describe('the ledger', () => {
  it('posts in turn, several times under one token too', async () => {
    await post('a', 7, await ledger.open(as('a', 7)), 5)
    await post('b', 7, await ledger.open(as('b', 7)), 6)
    expect(await ledger.open(as('c', 8))).toMatchObject({ balance: 11, posted: false })
    const audit = await ledger.audit()
    expect(audit).toMatchObject({ jobsPosted: 2, staleWritesRefused: [] })
    expect(isRight(audit)).toBe(true)
  })

  it('reports that a job has posted before', async () => {
    await post('a', 1, await ledger.open(as('a', 1)), 5)
    expect(await ledger.open(as('a', 2))).toMatchObject({ balance: 5, posted: true })
  })

  it('refuses and notes a write with a token lower than one that has only read', async () => {
    const read = await ledger.open(as('a', 1))
    await ledger.open(as('b', 2))
    const refused = post('a', 1, read, 5)
    await expect(refused).rejects.toThrow(StaleTokenError)
    await expect(refused).rejects.toMatchObject({
      ...{ target: `account ${customer}`, fencingToken: 1, storedToken: 2 },
    })
    const { jobsPosted, staleWritesRefused } = await ledger.audit()
    expect(jobsPosted).toBe(0)
    expect(staleWritesRefused).toMatchObject([{ jobId: 'a', fencingToken: 1, currentToken: 2 }])
  })

  it('refuses to open with a lower token', async () => {
    await ledger.open(as('a', 2))
    await expect(ledger.open(as('b', 1))).rejects.toMatchObject({ code: 'STALE_TOKEN' })
  })

  it('refuses to post to an account that was not opened', async () => {
    const nothing = { balance: 0, seal: '', posted: false }
    await expect(post('a', 1, nothing, 5)).rejects.toThrow('must be opened first')
  })

  it('shows the effect of an overlap when writers share a token', async () => {
    const one = await ledger.open(as('a', 1))
    const two = await ledger.open(as('b', 1))
    await post('a', 1, one, 5)
    await post('b', 1, two, 6)
    await post('a', 1, await ledger.open(as('a', 1)), 5)
    const audit = await ledger.audit()
    expect(audit.duplicateEffects).toMatchObject([{ jobId: 'a' }])
    expect(audit.outOfTurnEffects).toMatchObject([{ jobId: 'b' }])
    expect(audit.wrongBalances).toMatchObject([{ customer }])
  })

  it('shows a claim that waited for a stale writer what that writer wrote', async () => {
    const stale = new pg.Client(url)
    await stale.connect()
    const read = await ledger.open(as('a', 1))
    await stale.query('BEGIN')
    await stale.query('UPDATE accounts SET balance = 5 WHERE customer = $1', [customer])
    await stale.query(
      `INSERT INTO entries (customer, fencing_token, job_id, worker, amount, balance_before,
         balance_after, seal) VALUES ($1, 1, 'a', 'w', 5, 0, 5, $2)`,
      [customer, seal(read.seal, { jobId: 'a', customer, amount: 5, balanceAfter: 5 })],
    )
    const opening = ledger.open(as('a', 2))
    await stale.query('COMMIT')
    await stale.end()
    expect(await opening).toMatchObject({ balance: 5, posted: true })
  })

  it('keeps its promises when many clients write at once', async () => {
    const others = await Promise.all(Array.from({ length: 4 }, () => Ledger.connect(url)))
    await Promise.allSettled(
      others.flatMap((other, index) =>
        Array.from({ length: 20 }, async (_, round) => {
          const jobId = `job-${index}-${round}`
          const facts = { jobId, customer, fencingToken: index * 20 + round, worker: 'w' }
          const { balance, seal: last } = await other.open(facts)
          const amounts = { amount: 1, balanceBefore: balance, balanceAfter: balance + 1 }
          const sealed = seal(last, { ...facts, ...amounts })
          await other.post({ ...facts, ...amounts, seal: sealed })
        }),
      ),
    )
    await Promise.all(others.map((other) => other.close()))
    const audit = await ledger.audit()
    expect(isRight(audit)).toBe(true)
    expect(audit.jobsPosted).toBeGreaterThan(0)
    expect(audit.jobsPosted + audit.staleWritesRefused.length).toBe(80)
  })
})
