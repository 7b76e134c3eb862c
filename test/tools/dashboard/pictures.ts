/**
 * `npm run docs:pictures`: takes the pictures of the documentation from a page on servers of its
 * own, on which a master has died and a failed job holds a line.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from '../../../src/index.ts'
import { dashboardHandler } from '../../../src/tools/dashboard/index.ts'
import { Closing } from '../../../workers/demo/stopping.ts'
import { startNewFleet } from '../../../workers/new-fleet.ts'
import { findChromium, launch } from './browser.ts'

const PICTURES = join(import.meta.dirname, '..', '..', '..', 'docs', 'images')
const DESK = { viewport: { width: 1280, height: 900 }, colorScheme: 'light' } as const
const PHONE = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const
/** So long the charts go back. */
const SECONDS = 60
const DECLINED = '19'
const SLOW = ['42', '7', '1']
const LOCK = { leaseMs: 15_000, maxLeaseMs: 20_000 }

async function take(closing: Closing): Promise<void> {
  const { fleet } = await startNewFleet(5, LOCK, closing)
  const connection = { url: fleet.queue.url }
  const redlock = new Redlock({
    ...LOCK,
    masters: fleet.urls,
    owner: 'worker-1:4711',
    logger: silentLogger,
  })
  closing.add(() => redlock.close())
  const queue = new LockedQueue<{ customer: string }>('invoices', {
    ...{ connection, resource: ({ customer }: { customer: string }) => `customer:${customer}` },
  })
  closing.add(() => queue.close())
  const worker = new LockedWorker<{ customer: string }>(
    'invoices',
    async ({ data: { customer } }, { signal }) => {
      if (customer === DECLINED) throw new Error('card was declined: insufficient funds')
      if (SLOW.includes(customer)) await delay(600_000, undefined, { signal })
    },
    {
      ...{ connection, redlock, concurrency: 8, onFailure: 'block' },
      resource: ({ data: { customer } }) => `customer:${customer}`,
    },
  )
  closing.add(() => worker.close(true))
  for (const customer of [DECLINED, DECLINED, DECLINED, ...SLOW, '42', '42', '7', '42']) {
    await queue.add('invoice', { customer })
  }
  await fleet.masters[3]?.kill()

  const handler = dashboardHandler({ masters: fleet.urls, queueRedis: fleet.queue.url })
  closing.add(() => handler.close())
  const server = createServer((request, response) => {
    handler(request, response)
  })
  closing.add(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo

  const browser = await launch(findChromium() ?? 'chromium')
  closing.add(() => browser.close())
  const open = async (options: typeof DESK | typeof PHONE): ReturnType<typeof browser.newPage> => {
    const page = await browser.newPage(options)
    await page.goto(`http://127.0.0.1:${port}/`)
    await page.locator('#leases tr', { hasText: 'customer:42' }).getByText('invoices').waitFor()
    return page
  }
  await open(DESK) // The page looks while it is open.
  for (let second = 0; second < SECONDS; second++) {
    const customers = Array.from({ length: 20 + 3 * (second % 7) }, (_, nr) => String(100 + nr))
    await queue.addBulk(customers.map((customer) => ({ name: 'invoice', data: { customer } })))
    if (second % 9 === 0) await queue.add('invoice', { customer: '42' })
    await delay(900)
  }
  for (const [options, name] of [
    [DESK, 'dashboard-1280-light.png'],
    [PHONE, 'dashboard-390-dark.png'],
  ] as const) {
    const page = await open(options)
    await page.screenshot({ path: join(PICTURES, name) })
  }
}

const closing = new Closing()
try {
  await take(closing)
} finally {
  await closing.run()
}
