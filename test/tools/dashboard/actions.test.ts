/** What an operator does from the page, who may, and that no other site can do it. */
import { request as httpRequest } from 'node:http'
import { once } from 'node:events'
import { beforeEach, describe, expect, test } from 'vitest'
import { silentLogger } from '../../../src/index.ts'
import { dashboardHandler } from '../../../src/tools/dashboard/index.ts'
import { granted, until, useFleet } from '../../fixtures.ts'
import { rowsOf } from '../../telemetry/doc-tables.ts'
import { invoices, invoiceWorker, listen, optionsFor, serve, type Served } from './harness.ts'

const fixture = useFleet({ masters: 1 })
const VIEWER = 'correct-horse-battery'
const OPERATOR = 'staple-horse-battery'
const JSON_TYPE = { 'content-type': 'application/json' }
const RETRY = { action: 'retry', queue: 'invoices', jobId: '1' }

interface Answer {
  readonly status: number
  readonly ok?: boolean
  readonly outcome?: string
}

/** As `fetch`, which refuses to set `Origin` and `Sec-Fetch-Site`. */
async function post(
  { port }: Served,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const request = httpRequest({ host: '127.0.0.1', port, path: '/act', method: 'POST', headers })
  request.end(typeof body === 'string' ? body : JSON.stringify(body))
  return new Promise((resolve, reject) => {
    request.once('error', reject).once('response', (response) => {
      let text = ''
      response.on('data', (chunk) => (text += String(chunk)))
      response.once('end', () => {
        const isJson = response.headers['content-type'] === 'application/json'
        const { statusCode: status = 0 } = response
        resolve({ status, ...(isJson && (JSON.parse(text) as Answer)) })
      })
    })
  })
}

const act = (served: Served, body: object): Promise<Answer> =>
  post(served, body, { ...JSON_TYPE, authorization: `Bearer ${OPERATOR}` })

async function cookieOf({ base, port }: Served, token: string, who = ''): Promise<string> {
  const answer = await fetch(`${base}/login`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ token, who }),
  })
  expect(answer.status).toBe(303)
  expect(port).toBeGreaterThan(0)
  return (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
}

interface Line {
  readonly fields: Record<string, unknown>
  readonly message: string
}

/** A page whose log is kept. */
async function withLog(): Promise<{ served: Served; log: Line[] }> {
  const log: Line[] = []
  const warn = (fields: object, message: string): void => {
    log.push({ fields: { ...fields }, message })
  }
  const nothing = (): void => undefined
  const logger = { debug: nothing, info: nothing, error: nothing, warn }
  const own = { prefix: fixture.namespace, token: VIEWER, operatorToken: OPERATOR, logger }
  return { served: await serve(fixture, own), log }
}

describe('who may act', () => {
  test.each([
    ['nobody', {}, 401],
    ['a viewer', { authorization: `Bearer ${VIEWER}` }, 403],
    ['a wrong token', { authorization: 'Bearer wrong-horse-battery' }, 401],
    ['an operator', { authorization: `Bearer ${OPERATOR}` }, 200],
  ])('%s', async (_who, headers, status) => {
    const { served } = await withLog()
    const answer = await post(served, RETRY, { ...JSON_TYPE, ...headers })
    expect(answer.status).toBe(status)
  })

  test('without an operator’s token nobody may, also on this machine', async () => {
    const served = await serve(fixture, { prefix: fixture.namespace })
    const origin = served.base
    expect((await post(served, RETRY, { ...JSON_TYPE, origin })).status).toBe(403)
  })

  test('an application names who may', async () => {
    const operator = ({ headers }: { headers: NodeJS.Dict<string | string[]> }) =>
      headers['x-user'] === 'ann' ? 'ann' : undefined
    const served = await serve(fixture, { prefix: fixture.namespace, operator })
    const own = { ...JSON_TYPE, 'sec-fetch-site': 'same-origin' }
    expect((await post(served, RETRY, { ...own, 'x-user': 'bob' })).status).toBe(403)
    expect((await post(served, RETRY, { ...own, 'x-user': 'ann' })).status).toBe(200)
  })

  test('a session with a changed name is no session', async () => {
    const { served } = await withLog()
    const cookie = await cookieOf(served, OPERATOR, 'ann')
    const own = { ...JSON_TYPE, 'sec-fetch-site': 'same-origin' }
    expect((await post(served, RETRY, { ...own, cookie })).status).toBe(200)
    const [name = '', session = ''] = cookie.split('=')
    const forged = `${name}=${Buffer.from('eve').toString('base64url')}.${session.split('.')[1] ?? ''}`
    expect((await post(served, RETRY, { ...own, cookie: forged })).status).toBe(401)
  })

  test('a viewer’s session may not', async () => {
    const { served } = await withLog()
    const cookie = await cookieOf(served, VIEWER, 'ann')
    const own = { ...JSON_TYPE, 'sec-fetch-site': 'same-origin', cookie }
    expect((await post(served, RETRY, own)).status).toBe(403)
  })
})

describe('what no other site can send with an operator’s cookie', () => {
  test.each([
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['text', { 'content-type': 'text/plain', 'sec-fetch-site': 'same-origin' }],
    ['a script of another site', { ...JSON_TYPE, 'sec-fetch-site': 'cross-site' }],
    ['a script of a sibling', { ...JSON_TYPE, 'sec-fetch-site': 'same-site' }],
    ['another origin', { ...JSON_TYPE, origin: 'https://evil.example' }],
    [
      'a navigation',
      { ...JSON_TYPE, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
    ],
    ['one who does not say from where', JSON_TYPE],
  ])('%s', async (_what, headers) => {
    const { served, log } = await withLog()
    const cookie = await cookieOf(served, OPERATOR, 'ann')
    expect((await post(served, RETRY, { ...headers, cookie })).status).toBe(403)
    expect(log).toEqual([])
  })
})

test.each([
  '',
  '[]',
  'null',
  { action: 'toString', queue: 'q', jobId: '1' },
  { action: 'retry', queue: 'invoices' },
  { action: 'retry', queue: 'invoices', jobId: { a: 1 } },
  `{"action":"retry","queue":"q","jobId":"${'x'.repeat(5_000)}"}`,
])('%j is no action', async (body) => {
  const { served } = await withLog()
  const headers = { ...JSON_TYPE, authorization: `Bearer ${OPERATOR}` }
  expect((await post(served, body, headers)).status).toBe(400)
})

test('a queue that is not there is not made', async () => {
  const { served } = await withLog()
  const pause = { action: 'pause', queue: 'invoice', resource: 'customer:42' }
  const outcome = expect.stringContaining('There is no queue `invoice`') as string
  expect(await act(served, pause)).toMatchObject({ ok: false, outcome })
  const redis = fixture.redis()
  expect(await redis.keys(`${fixture.namespace}:invoice:*`)).toEqual([])
})

test('an id that is too long is none: the job of its beginning is another one', async () => {
  const { served } = await withLog()
  expect(await act(served, { ...RETRY, jobId: 'x'.repeat(512) })).toMatchObject({ status: 200 })
  expect(await act(served, { ...RETRY, jobId: 'x'.repeat(513) })).toMatchObject({ status: 400 })
})

test('retry and skip of a job that holds its line; both are logged with who', async () => {
  let declined = 2
  await invoiceWorker(
    fixture,
    () => (declined-- > 0 ? Promise.reject(new Error('declined')) : Promise.resolve()),
    { onFailure: 'block' },
  )
  const queue = invoices(fixture)
  for (let nr = 0; nr < 3; nr++) await queue.add('invoice', { customer: '42' }, { jobId: `j${nr}` })
  const { served, log } = await withLog()
  const failed = async (): Promise<string> =>
    JSON.stringify((await stateOf(served)).failed.map(({ jobId }) => jobId))
  await until('the first holds its line', async () => (await failed()) === '["j0"]')
  const { failed: rows, fleet } = await stateOf(served)
  expect(rows).toMatchObject([
    { resources: ['customer:42'], failedReason: 'declined', attempts: 1, holdsLine: true },
  ])
  expect(fleet.findings.map(({ code }) => code)).toContain('line-held')

  const cookie = await cookieOf(served, OPERATOR, 'ann')
  const own = { ...JSON_TYPE, 'sec-fetch-site': 'same-origin', cookie }
  const retry = { action: 'retry', queue: 'invoices', jobId: 'j0' }
  expect(await post(served, retry, own)).toMatchObject({ ok: true, outcome: 'Job j0 waits again.' })
  await until('it failed again', async () => (await stateOf(served)).failed[0]?.attempts === 2)
  expect(await act(served, { ...retry, action: 'skip' })).toMatchObject({ ok: true })
  await until('the others ran', async () => (await queue.getCompletedCount()) === 2)
  expect(await act(served, retry)).toMatchObject({ ok: true })
  await until('it ran', async () => (await queue.getCompletedCount()) === 3)
  expect(await act(served, retry)).toMatchObject({ ok: false })
  expect(log.map(({ fields: { who, did } }) => [who, did])).toEqual([
    ['ann', 'retry invoices j0'],
    ['operator', 'skip invoices j0'],
    ['operator', 'retry invoices j0'],
    ['operator', 'retry invoices j0'],
  ])
  expect(log[0]?.fields).toMatchObject({
    ...{ event: 'operator:acted', who: 'ann', from: '127.0.0.1', action: 'retry' },
    ...{ queue: 'invoices', job: 'j0', ok: true },
  })
  expect((await stateOf(served)).done[0]).toMatchObject({ who: 'operator', ok: false })
})

test('pause, resume, slots, rate, cancel and release', async () => {
  const redlock = await fixture.redlock({ leaseMs: 15_000, maxLeaseMs: 20_000 })
  await granted(redlock, 'order:1')
  const queue = invoices(fixture)
  await queue.add('invoice', { customer: '42' }, { jobId: 'j0' })
  const { served, log } = await withLog()
  const on = { queue: 'invoices', resource: 'customer:42' }
  const limits = async (): Promise<object> => await queue.getLimits('customer:42')
  await act(served, { ...on, action: 'pause', reason: 'migration' })
  expect(await limits()).toMatchObject({ paused: { by: 'operator', reason: 'migration' } })
  await act(served, { ...on, action: 'resume' })
  await act(served, { ...on, action: 'slots', slots: 3 })
  expect(await limits()).toMatchObject({ slots: { slots: 3 } })
  expect(await limits()).not.toHaveProperty('paused')
  await act(served, { ...on, action: 'slots', slots: 0 })
  expect(await limits()).toEqual({})
  await act(served, { ...on, action: 'slots', slots: 3 })
  for (const slots of [-4, 2.5, '2', null, undefined]) {
    expect(await act(served, { ...on, action: 'slots', slots })).toMatchObject({ ok: false })
    expect(await act(served, { ...on, action: 'rate', limit: slots })).toMatchObject({ ok: false })
  }
  expect(await limits()).toMatchObject({ slots: { slots: 3 } })
  await act(served, { ...on, action: 'slots', slots: 0 })
  await act(served, { ...on, action: 'rate', limit: 100, perMs: 60_000, reason: 'their API' })
  const rate = { limit: 100, perMs: 60_000, by: 'operator', reason: 'their API' }
  expect(await limits()).toMatchObject({ rate })
  expect(log.at(-1)?.fields).toMatchObject({ action: 'rate', set: '100/60000', ok: true })
  expect(await act(served, { ...on, action: 'rate', limit: 100 })).toMatchObject({ ok: false })
  expect(await limits()).toMatchObject({ rate })
  await act(served, { ...on, action: 'rate', limit: 0 })
  expect(await limits()).toEqual({})
  expect(log.at(-1)?.fields).toMatchObject({ did: 'rate invoices customer:42 reset', ok: true })
  const cancel = { action: 'cancel', queue: 'invoices', jobId: 'j0' }
  expect(await act(served, cancel)).toMatchObject({ ok: true, outcome: 'Job j0: failed.' })
  const release = { action: 'release', resource: 'order:1' }
  expect(await act(served, release)).toMatchObject({ ok: true })
  expect((await redlock.inspect('order:1')).holder).toBeUndefined()
  await fixture.fleet.masters[0]?.kill()
  expect(await act(served, release)).toMatchObject({
    ok: false,
    outcome: expect.stringMatching(
      /^The holder of order:1 is not known: \S+ does not answer\./,
    ) as string,
  })
  const [row = []] = rowsOf('logging.md', 'Events').filter(([name]) => name === 'operator:acted')
  const seen = new Set(log.flatMap(({ fields }) => Object.keys(fields)))
  seen.delete('event')
  expect([...seen].sort()).toEqual(row[2]?.split(' ').sort())
})

describe('what is posted is read', () => {
  const pause = { action: 'pause', queue: 'invoices', resource: 'café:42' }
  const form = new URLSearchParams({ token: OPERATOR }).toString()

  /** In an application that has a `body` for the dashboard, and may have read the request. */
  async function inApplication(body: unknown, reads = false): Promise<Served> {
    const own = { prefix: fixture.namespace, operatorToken: OPERATOR, logger: silentLogger }
    const dashboard = fixture.closing(dashboardHandler(optionsFor(fixture, own)))
    return listen(fixture, (request, response) => {
      const next = (): void => {
        dashboard(Object.assign(request, { body }), response)
      }
      if (reads) request.resume().once('end', next)
      else next()
    })
  }

  beforeEach(async () => {
    await invoices(fixture).add('invoice', { customer: '7' })
  })

  test.each([
    ['which no parser was for: Express 4', {}, false],
    ['as a text', JSON.stringify(pause), true],
    ['as bytes', Buffer.from(JSON.stringify(pause)), true],
    ['parsed', pause, true],
  ])('%s', async (_what, body, reads) => {
    const served = await inApplication(body, reads)
    expect(await act(served, pause)).toMatchObject({ ok: true })
    expect(await invoices(fixture).getLimits('café:42')).toHaveProperty('paused')
  })

  test.each([
    ['with a parser of JSON in Express 4', {}, false],
    ['as a text', form, true],
  ])('the login, %s', async (_what, body, reads) => {
    await cookieOf(await inApplication(body, reads), OPERATOR)
  })

  test('with a character in two chunks', async () => {
    const { served } = await withLog()
    const bytes = Buffer.from(JSON.stringify(pause))
    const middle = bytes.indexOf(0xc3) + 1
    const headers = { ...JSON_TYPE, authorization: `Bearer ${OPERATOR}` }
    const { port } = served
    const request = httpRequest({ host: '127.0.0.1', port, path: '/act', method: 'POST', headers })
    request.write(bytes.subarray(0, middle))
    await new Promise((resolve) => setTimeout(resolve, 100))
    request.end(bytes.subarray(middle))
    await once(request, 'response')
    expect([...(await invoices(fixture).getAllLimits()).keys()]).toEqual(['café:42'])
  })
})

async function stateOf({ base }: Served): ReturnType<Served['state']> {
  const answer = await fetch(`${base}/state`, { headers: { authorization: `Bearer ${VIEWER}` } })
  return (await answer.json()) as Awaited<ReturnType<Served['state']>>
}
