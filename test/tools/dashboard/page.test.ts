/** The page in a real Chromium: what it shows, how it stays true, and who can use it. */
import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { ExpressAdapter } from '@bull-board/express'
import axe from 'axe-core'
import express from 'express'
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { LOCK_SERVERS } from '../../../scripts/lock-servers/lock-servers.ts'
import { silentLogger } from '../../../src/index.ts'
import { openLocks } from '../../../src/tools/operator/open-locks.ts'
import { granted, until, useFleet, type Gate } from '../../fixtures.ts'
import { findChromium, launch } from './browser.ts'
import { dashboardHandler } from '../../../src/tools/dashboard/index.ts'
import { invoices, invoiceWorker, listen, optionsFor, serve, type Served } from './harness.ts'

// A browser on a machine that does other things too.
vi.setConfig({ testTimeout: 240_000 })

const program = findChromium()
const fixture = useFleet({ masters: 5 })
const LONG = { leaseMs: 15_000, maxLeaseMs: 20_000, owner: 'worker-2:4712' }
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
const DESK = { viewport: { width: 1280, height: 900 } }
describe.skipIf(program === undefined)('in Chromium', () => {
  let browser: Browser | undefined

  beforeAll(async () => {
    browser = await launch(program ?? '')
  })
  afterAll(async () => {
    await browser?.close()
  })

  /** A page of its own, which must not have failed in any way when the test is over. */
  async function open(
    { base }: Pick<Served, 'base'>,
    path = '/',
    options: BrowserContextOptions = DESK,
  ): Promise<Page> {
    if (browser === undefined) throw new Error('the browser is started in beforeAll')
    const context = await browser.newContext(options)
    const page = await context.newPage()
    page.setDefaultTimeout(60_000)
    const errors: string[] = []
    page.on('pageerror', ({ message }) => errors.push(message))
    fixture.defer(async () => {
      await context.close()
      expect(errors).toEqual([])
    })
    await page.goto(base + path)
    return page
  }

  async function live(page: Page): Promise<void> {
    await page.getByText('Live', { exact: true }).waitFor()
  }

  /**
   * Leases of two workers, and two lines. Ends when it is told.
   */
  async function busy(): Promise<Gate> {
    const other = await fixture.redlock(LONG)
    for (const name of ['order:9001', 'order:9002', 'gpu#1', 'report:2026-11']) {
      await granted(other, name, { autoExtend: true })
    }
    const work = fixture.gate()
    await invoiceWorker(fixture, () => work.passed)
    const queue = invoices(fixture)
    for (const customer of ['42', '42', '7', '42', '7', '42', '42', '1']) {
      await queue.add('invoice', { customer })
    }
    return work
  }

  const rows = (page: Page, table: string): Promise<string[]> =>
    page.locator(`#${table} tr th`).allInnerTexts()

  const overflow = (page: Page): Promise<number> =>
    page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')

  test('a job links to Bull Board, where that is mounted', async () => {
    const serverAdapter = new ExpressAdapter()
    serverAdapter.setBasePath('/admin/queues')
    createBullBoard({ queues: [new BullMQAdapter(invoices(fixture))], serverAdapter })
    const own = { prefix: fixture.namespace, basePath: '/locks', bullBoard: '/admin/queues' }
    const handler = fixture.closing(dashboardHandler(optionsFor(fixture, own)))
    const app = express()
    app.use('/admin/queues', serverAdapter.getRouter() as express.Router)
    app.use('/locks', handler)
    const { base } = await listen(fixture, app)
    const work = await busy()
    const page = await open({ base }, '/locks/')
    await live(page)
    const lease = page.locator('#leases tr', { hasText: 'customer:42' })
    await lease.getByRole('link', { name: 'invoices 1,' }).click()
    await page.waitForURL('**/admin/queues/queue/invoices/1')
    await page.getByText('#1').first().waitFor()
    work.open()
  })

  test('shows masters, leases with holder, job, votes and time left, and lines with reasons', async () => {
    const served = await serve(fixture, { prefix: fixture.namespace })
    const work = await busy()
    const page = await open(served)
    await live(page)
    await page.locator('#leases tr', { hasText: 'customer:42' }).getByText('invoices').waitFor()
    expect(await page.locator('#fleet-summary').innerText()).toBe(
      '5 of 5 masters vote, 3 are needed; 2 more may fail',
    )
    expect(await rows(page, 'masters')).toHaveLength(5)
    expect(await rows(page, 'leases')).toEqual(
      ['customer:1', 'customer:42', 'customer:7', 'gpu#1', 'order:9001', 'order:9002'].concat(
        'report:2026-11',
      ),
    )
    const row = page.locator('#leases tr', { hasText: 'customer:42' })
    const whole =
      /held\s+worker-1:4711 \(.{6}…\)\s+invoices \d+, for [\d.]+ (?:ms|s|min)\s+[\d.]+ s\s+5 of 5\s+\d{16}/
    await until('all of it is known', async () => whole.test(await row.innerText()))
    const line = page.locator('#lines tr', { hasText: 'customer:42' })
    await line.getByText('is running').waitFor()
    expect(await line.innerText()).toContain('(waiting) waits for its turn: 1 ahead of it')
    work.open()
  })

  test('shows what is set for a line, whose it is, and its weight', async () => {
    await fixture.redlock(LONG)
    const queue = invoices(fixture, { tenant: () => 'acme', weight: () => 4 })
    await queue.pauseResource('customer:1', { reason: 'migration' })
    await queue.setSlots('customer:1', 2)
    await queue.setSlots('customer:2', 2)
    await queue.setRate('customer:1', { limit: 100, perMs: 60_000 })
    for (const customer of ['1', '1', '2', '2', '2']) await queue.add('invoice', { customer })
    const page = await open(await serve(fixture, { prefix: fixture.namespace }))
    await live(page)
    const line = (name: string): Locator => page.locator('#lines tr', { hasText: name })
    await line('customer:1').getByText('acme, weight 4').waitFor()
    expect(await line('customer:1').innerText()).toContain(
      'paused (migration); 2 slots; 100 in 1 min',
    )
    expect(await line('customer:2').innerText()).toMatch(
      /2 slots\s+.*waits for a free worker, and the turn of its tenant `acme`, of weight 4/,
    )
    await queue.resumeResource('customer:1')
    await line('customer:1').getByText('2 slots; 100 in 1 min').waitFor()
  })

  test('lines come before leases; leases have pages and an order, which the address keeps', async () => {
    const redlock = await fixture.redlock(LONG)
    for (let nr = 10; nr < 40; nr++) await granted(redlock, `order:${nr}`)
    await granted(redlock, 'shortest', { leaseMs: 12_000 })
    const page = await open(await serve(fixture))
    await live(page)
    const headings = await page.locator('main h2:visible').allInnerTexts()
    expect(headings).toEqual(['Now', 'Failed jobs', 'Lines', 'Leases', 'Queues', 'Fleet', 'Losses'])
    await page.getByText('Page 1 of 2').waitFor()
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('Page 2 of 2').waitFor()
    expect(await rows(page, 'leases')).toHaveLength(6)
    await page.reload()
    await page.getByText('Page 2 of 2').waitFor()
    await page.getByLabel('Sort by').selectOption('left')
    await page.getByText('Page 1 of 2').waitFor()
    await until('the shortest is first', async () => (await rows(page, 'leases'))[0] === 'shortest')
    expect(page.url()).toContain('sort=left')
    expect(await page.locator('#charts path').count()).toBe(5)
  })

  test('without a quorum it says that holders are unknown, and shows what the others have', async () => {
    const redlock = await fixture.redlock(LONG)
    await granted(redlock, 'customer:42')
    const page = await open(await serve(fixture))
    await live(page)
    for (const master of fixture.fleet.masters.slice(0, 3)) await master.kill()
    await page.getByText('The holders are not known: only 2 of 5 masters answer').waitFor()
    await page.locator('#leases tr', { hasText: 'customer:42' }).getByText('unknown').waitFor()
    expect(await page.locator('#fleet-summary').innerText()).toContain('no lease can be granted')
  })

  test.skipIf(LOCK_SERVERS.postgres.missing !== undefined)(
    'of another lock service it names the service, and says nothing of masters and votes',
    async () => {
      const cluster = fixture.closing(await LOCK_SERVERS.postgres.start(1))
      const locks = await openLocks(cluster.address, { leaseMs: 15_000, logger: silentLogger })
      await locks.ready()
      fixture.defer(() => locks.close())
      await locks.acquire('customer:42', { autoExtend: true })
      const { masters: _, ...options } = optionsFor(fixture)
      const operator = (): string => 'ann'
      const handler = fixture.closing(dashboardHandler({ ...options, locks, operator }))
      const served = await listen(fixture, (request, response) => {
        handler(request, response)
      })
      const page = await open(served)
      await live(page)
      await page.locator('#leases tr', { hasText: 'customer:42' }).getByText('held').waitFor()
      expect(await page.locator('#fleet-summary').innerText()).toBe('PostgreSQL grants leases')
      expect(await rows(page, 'masters')).toEqual(['PostgreSQL'])
      await page.evaluate("location.hash = '#resource=customer:42'")
      await page.getByText(/^customer:42 is held by /).waitFor()
      await page.getByText('Acts as ann').waitFor()
      expect(await page.getByRole('button', { name: 'Release' }).count()).toBe(0)
      const said = async (): Promise<string> => page.locator('body').innerText()
      expect(await said()).toContain('What every server says')
      expect(await said()).not.toMatch(/(?<!post)master|votes?\b/i)
      await cluster.members[0]?.process.kill()
      await page.getByText('The holders are not known: PostgreSQL does not answer.').waitFor()
      expect(await page.locator('#fleet-summary').innerText()).toMatch(/^NO LEASES from PostgreSQL/)
      await page.getByText(/^The holder of customer:42 is not known: PostgreSQL does not/).waitFor()
      expect(await said()).not.toMatch(/(?<!post)master|votes?\b/i)
    },
  )

  test('a failed job that holds its line: what it is, where, why, and a button that ends it', async () => {
    let broken = true
    await invoiceWorker(
      fixture,
      () => (broken ? Promise.reject(new Error('card was declined')) : Promise.resolve()),
      { onFailure: 'block' },
    )
    const queue = invoices(fixture)
    for (const id of ['a', 'b']) await queue.add('invoice', { customer: '42' }, { jobId: id })
    const operatorToken = 'staple-horse-battery'
    const log: object[] = []
    const nothing = (): void => undefined
    const warn = ({ who, did }: Record<string, unknown>): void => {
      log.push({ who, did })
    }
    const logger = { debug: nothing, info: nothing, error: nothing, warn }
    const own = { prefix: fixture.namespace, operatorToken, logger }
    const page = await open(await serve(fixture, own))
    await live(page)
    const row = page.locator('#failed tr', { hasText: 'invoices a' })
    await row.getByText('card was declined').waitFor()
    expect(await row.getByRole('button').count()).toBe(0)
    await page.locator('#findings', { hasText: 'a failed job holds a line' }).waitFor()
    await page.getByRole('link', { name: 'Log in to act' }).click()
    await page.getByLabel('Token').fill(operatorToken)
    await page.getByLabel('Your name').fill('ann')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByText('Acts as ann').waitFor()
    await row.getByRole('link', { name: 'customer:42' }).click()
    await page
      .getByText(/Job a waits for .* it holds the line because it failed: card was declined/)
      .waitFor()
    await page.keyboard.press('Escape')
    await row.getByRole('link', { name: 'invoices a' }).click()
    await page.getByText('Stack').click()
    await page
      .getByText(/page\.test\.ts/)
      .first()
      .waitFor()
    broken = false
    await row.getByRole('button', { name: 'Retry job a' }).click()
    await page.locator('#outcome-text', { hasText: 'Job a waits again.' }).waitFor()
    await page.getByText('No failed job is kept.').waitFor()
    await page.locator('#done', { hasText: 'retry invoices a' }).getByText('ann').waitFor()
    expect(log).toEqual([{ who: 'ann', did: 'retry invoices a' }])
  })

  test('an operator sets a rate and slots of a resource, and resets them', async () => {
    const operatorToken = 'staple-horse-battery'
    const queue = invoices(fixture)
    for (let nr = 0; nr < 2; nr++) await queue.add('invoice', { customer: '42' })
    const log: unknown[] = []
    const nothing = (): void => undefined
    const warn = (fields: object): void => {
      const { who, did } = fields as Record<string, unknown>
      log.push({ who, did })
    }
    const logger = { debug: nothing, info: nothing, error: nothing, warn }
    const served = await serve(fixture, { prefix: fixture.namespace, operatorToken, logger })
    const page = await open(served, '/login')
    await page.getByLabel('Token').fill(operatorToken)
    await page.getByLabel('Your name').fill('ann')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.locator('#lines').getByRole('link', { name: 'customer:42' }).click()
    await page.getByLabel('Starts', { exact: true }).fill('7')
    await page.getByLabel('in ms').fill('60000')
    await page.getByRole('button', { name: 'Set rate customer:42' }).click()
    await page.locator('#outcome', { hasText: 'customer:42 has 7 starts in 60000 ms' }).waitFor()
    await page.locator('#resource-queues').getByText('7 in 1 min').waitFor()
    await page.getByLabel('Slots', { exact: true }).fill('3')
    await page.getByRole('button', { name: 'Set slots customer:42' }).click()
    await page.locator('#resource-queues').getByText('3 slots; 7 in 1 min').waitFor()
    await page.getByRole('button', { name: 'Reset rate customer:42' }).click()
    await page
      .locator('#outcome-text', { hasText: 'customer:42 has its own rate in invoices.' })
      .waitFor()
    await page.getByRole('button', { name: 'Reset slots customer:42' }).click()
    await page
      .locator('#outcome-text', { hasText: 'customer:42 has its own slots in invoices.' })
      .waitFor()
    expect(await queue.getLimits('customer:42')).toEqual({})
    // What was done is told, also where the page cannot look afterwards.
    await page.route('**/resource?*', (route) => route.abort())
    await page.getByRole('button', { name: 'Pause customer:42' }).click()
    await page.locator('#outcome-text', { hasText: 'customer:42 is paused in invoices.' }).waitFor()
    await page.unroute('**/resource?*')
    await page.getByRole('button', { name: 'Resume customer:42' }).waitFor()
    expect(await page.locator('#outcome-text').innerText()).toMatch(/^customer:42 is paused/)
    expect(await queue.getLimits('customer:42')).toMatchObject({ paused: { by: 'ann' } })
    // It is pressed once, however often the page is drawn until the answer.
    const answered = fixture.gate()
    await page.route('**/act', async (route) => {
      await answered.passed
      await route.continue()
    })
    const resume = page.getByRole('button', { name: 'Resume customer:42' })
    await resume.click()
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(await resume.isDisabled()).toBe(true)
    answered.open()
    await page.getByRole('button', { name: 'Pause customer:42' }).waitFor()
    expect(log).toEqual(
      ['rate invoices customer:42 7/60000', 'slots invoices customer:42 3']
        .concat('rate invoices customer:42 reset', 'slots invoices customer:42 reset')
        .concat('pause invoices customer:42', 'resume invoices customer:42')
        .map((did) => ({ who: 'ann', did })),
    )
  })

  test('with 10,000 lines the first paint takes at most a second, and rows stay where they are', async () => {
    const queue = invoices(fixture)
    const customers = Array.from({ length: 10_000 }, (_, nr) => `c${nr}`)
    for (let from = 0; from < customers.length; from += 1_000) {
      const some = customers.slice(from, from + 1_000)
      await queue.addBulk(
        some.flatMap((customer) => [1, 2].map(() => ({ name: 'x', data: { customer } }))),
      )
    }
    const page = await open(await serve(fixture, { prefix: fixture.namespace }))
    await page.getByText('10,000 lines in which').waitFor()
    const paintedMs = await page.evaluate<number>(
      "performance.getEntriesByName('first-contentful-paint')[0].startTime",
    )
    console.log(`first paint with 10,000 lines after ${Math.round(paintedMs)} ms`)
    expect(paintedMs).toBeLessThan(process.env['CI'] === undefined ? 3_000 : 1_000)
    await page.evaluate(`
      window.changed = 0
      new MutationObserver((all) => (window.changed += all.filter((one) => one.type === 'childList').length))
        .observe(document.getElementById('lines'), { childList: true })
    `)
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    expect(await page.evaluate<number>('window.changed')).toBe(0)
  })

  test('a new lease appears, and a released one goes, without a reload', async () => {
    const redlock = await fixture.redlock(LONG)
    const page = await open(await serve(fixture))
    await live(page)
    expect(await rows(page, 'leases')).toEqual([])
    const lease = await granted(redlock, 'customer:42')
    await page.getByRole('link', { name: 'customer:42' }).waitFor()
    await lease.release()
    await page.getByRole('link', { name: 'customer:42' }).waitFor({ state: 'detached' })
    expect(await page.locator('#leases-summary').innerText()).toContain('0 leases')
    expect(await page.getByLabel('Sort by').isVisible()).toBe(false)
    expect(await page.locator('#seen-summary').innerText()).toBe('No lease has run out.')
  })

  test('a master that dies is named, said aloud once, and again when it is back', async () => {
    await fixture.redlock(LONG)
    const page = await open(await serve(fixture))
    await live(page)
    await fixture.fleet.masters[2]?.kill()
    await page.getByText('4 of 5 masters vote').first().waitFor()
    expect(await page.locator('#findings').innerText()).toContain('does not answer')
    await until('it is said', async () =>
      (await page.locator('#news').innerText()).startsWith('4 of 5 masters vote'),
    )
  })

  test('search shows what contains the text, keeps it over a reload, and says how many', async () => {
    const redlock = await fixture.redlock(LONG)
    for (const name of ['customer:42', 'customer:420', 'order:1']) await granted(redlock, name)
    const page = await open(await serve(fixture))
    await live(page)
    await page.getByRole('searchbox', { name: 'Find' }).fill('mer:42')
    await page.getByText('2 leases with “mer:42” in the name.').waitFor()
    expect(await rows(page, 'leases')).toEqual(['customer:42', 'customer:420'])
    await until(
      'it is said',
      async () => (await page.locator('#news').innerText()) === '2 leases found',
    )
    await page.reload()
    await live(page)
    expect(await rows(page, 'leases')).toEqual(['customer:42', 'customer:420'])
    await page.getByRole('searchbox').fill('nobody')
    await page.getByText('0 leases with “nobody” in the name.').waitFor()
  })

  test('with the keyboard alone: skip, search, open a resource, close it, return to the row', async () => {
    const redlock = await fixture.redlock(LONG)
    for (const name of ['customer:42', 'order:1']) await granted(redlock, name)
    const page = await open(await serve(fixture))
    await live(page)
    const focused = (): Promise<string> =>
      page.evaluate<string>('document.activeElement.id || document.activeElement.textContent')
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('Skip to content')
    await page.keyboard.press('Enter')
    expect(await focused()).toBe('main')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Shift+Tab')
    expect(await focused()).toBe('text')
    await page.keyboard.type('order')
    await page.keyboard.press('Enter')
    await page.getByText('1 lease with “order” in the name.').waitFor()
    for (let tab = 0; tab < 3 && (await focused()) !== 'order:1'; tab++)
      await page.keyboard.press('Tab')
    expect(await focused()).toBe('order:1')
    const outline = await page.evaluate<string>(
      'getComputedStyle(document.activeElement).outlineStyle',
    )
    expect(outline).toBe('solid')
    await page.keyboard.press('Enter')
    await page.getByText(/^order:1 is held by worker-2:4712 /).waitFor()
    await until('its heading is focused', async () => (await focused()) === 'resource-title')
    expect(await rows(page, 'resource-masters')).toHaveLength(5)
    await page.keyboard.press('Escape')
    expect(await focused()).toBe('order:1')
    await page.locator('#resource').waitFor({ state: 'hidden' })
  })

  test('focus stays on its row while rows come and go, and is not lost with it', async () => {
    const redlock = await fixture.redlock(LONG)
    const lease = await granted(redlock, 'customer:5')
    const page = await open(await serve(fixture))
    await page.getByRole('link', { name: 'customer:5' }).focus()
    await granted(redlock, 'customer:1')
    await page.getByRole('link', { name: 'customer:1' }).waitFor()
    const focused = (): Promise<string> =>
      page.evaluate<string>('document.activeElement.textContent')
    expect(await focused()).toBe('customer:5')
    await lease.release()
    await until('it is led to the heading', async () => (await focused()) === 'Leases')
  })

  test('without the server the page says that it is out of date, and recovers by itself', async () => {
    await fixture.redlock(LONG)
    const first = await serve(fixture)
    const page = await open(first)
    await live(page)
    await first.close()
    await page.getByText('Not connected').waitFor()
    await page
      .getByText(/No connection to the dashboard\. What you see is old/)
      .first()
      .waitFor()
    await serve(fixture, {}, first.port)
    await live(page)
    expect(await page.locator('#stale').isVisible()).toBe(false)
  })

  test('a stream that stalls without ending is out of date too', async () => {
    await fixture.redlock(LONG)
    const served = await serve(fixture)
    const state = JSON.stringify(await served.state())
    const handler = fixture.closing(dashboardHandler(optionsFor(fixture)))
    const silent = await listen(fixture, (request, response) => {
      if (request.url?.startsWith('/events') !== true) handler(request, response)
      else {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(`event: state\ndata: ${state}\n\n`)
      }
    })
    const page = await open(silent)
    await live(page)
    await page.getByText(/What you see is old: \d/).waitFor()
    expect(await page.locator('#connection').innerText()).toBe('Not connected')
  })

  test('the login accepts the token, refuses a wrong one, and leaves it out of the address', async () => {
    const redlock = await fixture.redlock(LONG)
    await granted(redlock, 'customer:42')
    const token = 'correct-horse-battery'
    const page = await open(await serve(fixture, { token }))
    const box = page.getByLabel('Token')
    await box.fill('wrong')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('Wrong token.').waitFor()
    await box.fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    await live(page)
    expect(await rows(page, 'leases')).toEqual(['customer:42'])
    expect(page.url()).not.toContain(token)
    expect(await page.evaluate<string>('document.cookie')).toBe('')
  })

  test('nothing from the servers is run or drawn as HTML', async () => {
    const evil = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>"&lt;'
    const redlock = await fixture.redlock({ ...LONG, owner: '<b onclick=alert(1)>ann</b>' })
    await granted(redlock, evil)
    const page = await open(await serve(fixture), `/#resource=${encodeURIComponent(evil)}`)
    await live(page)
    expect(await rows(page, 'leases')).toEqual([evil])
    await page.locator('#resource-title', { hasText: 'onerror' }).waitFor()
    expect(await page.locator('#resource-title').innerText()).toBe(evil)
    await page.getByRole('searchbox').fill(evil)
    await page.getByText('1 lease with').waitFor()
    expect(await page.locator('main img, main script, main b').count()).toBe(0)
    expect(await page.evaluate<boolean>("'ran' in window")).toBe(false)
    // And were it drawn, it would still not run.
    await page.evaluate(
      `document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran=1">')`,
    )
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(await page.evaluate<boolean>("'ran' in window")).toBe(false)
  })

  test.each([
    ['1280', DESK],
    ['390', PHONE],
  ])('no fault that axe finds at %s px, light and dark, healthy and not', async (_width, size) => {
    await busy()
    const served = await serve(fixture, { prefix: fixture.namespace })
    const page = await open(served, '/', { ...size, bypassCSP: true })
    await page.evaluate(axe.source)
    const expectNone = async (): Promise<void> => {
      expect(await faults(page)).toEqual([])
      expect(await overflow(page)).toBeLessThanOrEqual(0)
    }
    await live(page)
    await page.locator('#leases tr', { hasText: 'customer:42' }).getByText('invoices').waitFor()
    await expectNone()
    await page.evaluate("location.hash = '#resource=customer:42'")
    await page.getByText(/^customer:42 is held by worker-1:4711 /).waitFor()
    await expectNone()
    await fixture.fleet.masters[1]?.kill()
    await page.getByText('4 of 5 masters vote').first().waitFor()
    await expectNone()
    await served.close()
    await page.getByText('Not connected').waitFor()
    await expectNone()
  })

  test('on a phone the longest names do not make the page wider than it', async () => {
    const redlock = await fixture.redlock({ ...LONG, owner: `host-${'x'.repeat(200)}` })
    await granted(redlock, `customer:${'y'.repeat(400)}`)
    const page = await open(await serve(fixture), '/', PHONE)
    await live(page)
    await page.locator('#leases tr').waitFor()
    expect(await overflow(page)).toBeLessThanOrEqual(0)
    const table = page.getByRole('table', { name: 'Live leases, by resource' })
    expect(await table.getByRole('rowheader').count()).toBe(1)
    const buttons = await page.getByRole('button', { name: 'Search' }).boundingBox()
    expect(buttons?.height).toBeGreaterThanOrEqual(44)
  })
})

/**
 * What axe says against WCAG 2.2 A and AA and its own best practices. Dark is the same page with
 * other colours.
 */
async function faults(page: Page): Promise<readonly string[]> {
  const found: string[] = []
  for (const [colorScheme, options] of [
    ['light', {}],
    ['dark', { runOnly: ['cat.color'] }],
  ] as const) {
    await page.emulateMedia({ colorScheme })
    const run = `axe.run(${JSON.stringify({ ...options, resultTypes: ['violations'] })})`
    const { violations } = await page.evaluate<Report>(run)
    found.push(
      ...violations.map(
        ({ id, nodes }) => `${colorScheme} ${id}: ${nodes.map(({ html }) => html).join(' ')}`,
      ),
    )
  }
  return found
}

interface Report {
  readonly violations: readonly {
    readonly id: string
    readonly nodes: readonly { html: string }[]
  }[]
}
