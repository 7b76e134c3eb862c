/**
 * Who may look: the token, the login, the names of this machine, and that nothing but looking is
 * possible.
 */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { dashboardHandler } from '../../../src/tools/dashboard/index.ts'
import { useFleet } from '../../fixtures.ts'
import { listen, optionsFor, serve, type Served } from './harness.ts'

const fixture = useFleet({ masters: 1 })
const TOKEN = 'correct-horse-battery'
const PAGES = ['/', '/state', '/events', '/resource?name=a']

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** As `fetch`, which sets `Host` itself and would not let us. */
async function ask(
  { port }: Pick<Served, 'port'>,
  path: string,
  headers: Record<string, string> = {},
  { method = 'GET', body = '' } = {},
): Promise<Answer> {
  const request = httpRequest({ host: '127.0.0.1', port, path, method, headers }).end(body)
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
  const stays = (response.headers['content-type'] ?? '').startsWith('text/event-stream')
  if (stays) response.destroy()
  const { statusCode: status } = response
  return { status, headers: response.headers, body: stays ? '' : await text(response) }
}

const login = (served: Served, token: string): Promise<Answer> =>
  ask(
    served,
    '/login',
    { 'content-type': 'application/x-www-form-urlencoded' },
    { method: 'POST', body: new URLSearchParams({ token }).toString() },
  )

describe('with a token', () => {
  test.each(PAGES)('%s is not answered without it', async (path) => {
    const served = await serve(fixture, { token: TOKEN })
    const answer = await ask(served, path)
    expect(answer.status).toBe(401)
    expect(answer.headers['www-authenticate']).toBe('Bearer')
    expect(answer.body).not.toContain(fixture.namespace)
  })

  test.each(PAGES)('%s is answered with it', async (path) => {
    const served = await serve(fixture, { token: TOKEN })
    expect((await ask(served, path, { authorization: `Bearer ${TOKEN}` })).status).toBe(200)
  })

  test.each([
    ...['', 'Bearer', 'Bearer wrong', `Bearer ${TOKEN}x`, `Basic ${TOKEN}`],
    ...[`Bearer ${TOKEN.slice(1)}`],
  ])('`%s` is not it', async (authorization) => {
    const served = await serve(fixture, { token: TOKEN })
    expect((await ask(served, '/state', { authorization })).status).toBe(401)
  })

  test('a login gives a cookie that no script can read and no other site can send', async () => {
    const served = await serve(fixture, { token: TOKEN })
    const answer = await login(served, TOKEN)
    expect(answer.status).toBe(303)
    const [cookie = ''] = answer.headers['set-cookie'] ?? []
    for (const attribute of ['HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age=']) {
      expect(cookie).toContain(attribute)
    }
    expect(cookie).not.toContain(TOKEN)
    const [pair = ''] = cookie.split(';')
    expect((await ask(served, '/state', { cookie: `other=1; ${pair}` })).status).toBe(200)
    expect((await ask(served, '/state', { cookie: `${pair.slice(0, -1)}x` })).status).toBe(401)
  })

  test('a wrong token gives the login again, and no cookie', async () => {
    const served = await serve(fixture, { token: TOKEN })
    for (const token of ['', 'wrong', 'x'.repeat(10_000)]) {
      const answer = await login(served, token)
      expect(answer.status).toBe(401)
      expect(answer.headers['set-cookie']).toBeUndefined()
      expect(answer.body).toContain('Wrong token')
    }
  })

  test('the cookie of one token is worth nothing where there is another', async () => {
    const [cookie = ''] =
      (await login(await serve(fixture, { token: TOKEN }), TOKEN)).headers['set-cookie'] ?? []
    const other = await serve(fixture, { token: `${TOKEN}-2` })
    expect((await ask(other, '/state', { cookie: cookie.split(';')[0] ?? '' })).status).toBe(401)
  })
})

describe('without a token', () => {
  test.each(['127.0.0.1', 'localhost', 'LOCALHOST:80', '[::1]:4280'])(
    '%s is this machine',
    async (host) => {
      expect((await ask(await serve(fixture), '/state', { host })).status).toBe(200)
    },
  )

  // A page of evil.example whose name was made to point here sends its own name.
  test.each([
    'evil.example',
    'evil.example:80',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
  ])('`%s` is refused, also where it resolves to this machine', async (host) => {
    const served = await serve(fixture)
    for (const path of [...PAGES, '/page.js']) {
      const answer = await ask(served, path, { host })
      expect(answer.status).toBe(421)
      expect(answer.body).toContain('allowedHosts')
    }
  })

  test('a name that was allowed is answered', async () => {
    const served = await serve(fixture, { allowedHosts: ['Ops.example'] })
    expect((await ask(served, '/state', { host: 'ops.example' })).status).toBe(200)
    expect((await ask(served, '/state', { host: 'evil.example' })).status).toBe(421)
  })

  test.each([
    ...['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-forwarded-host', 'x-forwarded-proto'],
    ...['via', 'cf-connecting-ip', 'true-client-ip', 'x-amzn-trace-id', 'x-client-ip', 'cdn-loop'],
  ])('a request through a proxy (%s) is refused', async (name) => {
    const answer = await ask(await serve(fixture), '/state', { [name]: '203.0.113.7' })
    expect(answer.status).toBe(403)
    expect(answer.body).toContain('`token` (--token)')
  })

  test('an application that has its own login decides', async () => {
    const authorize = (request: { headers: IncomingHttpHeaders }): boolean =>
      request.headers['x-user'] === 'ann'
    const served = await serve(fixture, { authorize })
    expect((await ask(served, '/state', { 'x-user': 'ann' })).status).toBe(200)
    expect((await ask(served, '/state')).status).toBe(403)
  })
})

describe('a page of another site', () => {
  test.each<Record<string, string>>([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' }, // Another port of this machine.
  ])('%j gets no stream and no data', async (headers) => {
    const served = await serve(fixture)
    for (const path of ['/state', '/events', '/resource?name=a']) {
      expect((await ask(served, path, headers)).status).toBe(403)
    }
  })

  test('the page itself, a link to it, and a program are answered', async () => {
    const served = await serve(fixture)
    const origin = `http://127.0.0.1:${served.port}`
    const host = `127.0.0.1:${served.port}`
    expect((await ask(served, '/state', { origin, host })).status).toBe(200)
    expect((await ask(served, '/events', { 'sec-fetch-site': 'same-origin' })).status).toBe(200)
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
    expect((await ask(served, '/', link)).status).toBe(200)
    expect((await ask(served, '/state')).status).toBe(200)
  })
})

test('delays the answer to a wrong token, and limits how many an address may try', async () => {
  const served = await serve(fixture, { token: TOKEN })
  const wrong = { authorization: 'Bearer wrong-horse-battery' }
  const answers: number[] = []
  const tries = Array.from({ length: 20 }, async () => {
    answers.push((await ask(served, '/state', wrong)).status ?? 0)
  })
  await Promise.all(tries)
  expect(answers.filter((status) => status === 401)).toHaveLength(5)
  // The refusals came first: they wait for nothing.
  expect(answers.slice(0, 15)).toEqual(Array(15).fill(429))
  expect((await ask(served, '/state', { authorization: `Bearer ${TOKEN}` })).status).toBe(200)
  expect((await login(served, TOKEN)).status).toBe(303)
})

test('is read-only: every method that changes something is refused', async () => {
  const served = await serve(fixture)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    for (const path of PAGES) expect((await ask(served, path, {}, { method })).status).toBe(405)
  }
})

test('nothing is cached, framed, sniffed, or run from elsewhere', async () => {
  const served = await serve(fixture)
  for (const path of [...PAGES, '/page.js', '/page.css']) {
    const { headers } = await ask(served, path)
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['x-content-type-options']).toBe('nosniff')
    const policy = headers['content-security-policy']
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
  }
})

test.each([
  [{ masters: [] }, '`masters`'],
  [{ masters: ['localhost:6379'] }, '`masters[0]`'],
  [{ token: 'short' }, '`token`'],
  [{ token: 'short' }, 'got one of 5 characters'],
  [{ authorise: () => true }, 'Is it `authorize`?'],
  [{ queueredis: 'redis://localhost' }, 'Is it `queueRedis`?'],
  [{ everyMs: 1 }, '`everyMs`'],
  [{ limit: 100_000 }, '`limit`'],
  [{ basePath: 'redlock' }, '`basePath`'],
  [{ queueRedis: 'localhost' }, '`queueRedis`'],
  [{ bullBoard: 'admin/' }, '`bullBoard`'],
  [{ queueRedis: 'redis//:geheim@h' }, '`queueRedis`'],
  [{ queueRedis: 'redis://h?tls=1' }, 'without a query'],
  [{ allowedHosts: 'a' as unknown as string[] }, '`allowedHosts`'],
])('%j is refused, and the option named', (more, option) => {
  expect(() => dashboardHandler(optionsFor(fixture, more as object))).toThrow(option)
})

describe('mounted in an application', () => {
  test('below a path that the framework leaves alone', async () => {
    const handler = dashboardHandler(
      optionsFor(fixture, { basePath: '/ops/redlock', token: TOKEN }),
    )
    fixture.defer(() => handler.close())
    const served = await listen(fixture, (request, response) => {
      handler(request, response, () => response.writeHead(204).end())
    })
    expect((await ask(served, '/ops/redlock')).headers['location']).toBe('redlock/')
    expect((await ask(served, '/ops/redlock/')).status).toBe(401)
    expect((await ask(served, '/ops/redlock/page.css')).status).toBe(200)
    for (const path of ['/', '/state', '/ops/redlocks', '/ops/redlock/other']) {
      expect((await ask(served, path)).status).toBe(204)
    }
  })

  test('after `close` it answers nothing, and opens no connection', async () => {
    const handler = dashboardHandler(optionsFor(fixture))
    const served = await listen(fixture, handler)
    expect((await ask(served, '/state')).status).toBe(200)
    await handler.close()
    for (const path of ['/', '/state', '/events', '/job?queue=q&id=1']) {
      expect((await ask(served, path)).status).toBe(503)
    }
    await expect(handler.why('invoices', '1')).rejects.toThrow('the connection was closed')
  })

  test('without `next` an unknown path is not found', async () => {
    expect((await ask(await serve(fixture), '/other')).status).toBe(404)
  })
})
