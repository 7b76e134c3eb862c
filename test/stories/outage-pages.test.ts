/**
 * Every outage × every page and endpoint of the dashboard: each answers, says what is not known,
 * and shows everything again when the outage is over.
 */
import { expect, it } from 'vitest'
import type { DashboardState } from '../../src/tools/dashboard/state.ts'
import type { ResourceDetail } from '../../src/tools/operator/resource-view.ts'
import { dashboardHandler } from '../../src/tools/dashboard/index.ts'
import { granted, until, useFleet } from '../fixtures.ts'
import { listen, optionsFor } from '../tools/dashboard/harness.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { hasQuorum, OUTAGES, strike, type Outage } from './outages.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 5 })

it.each(Object.entries<Outage>(OUTAGES))('%s', async (_name, outage) => {
  const { namespace } = fixture
  const redlock = await fixture.redlock({ leaseMs: 300_000, maxLeaseMs: 300_000 })
  await granted(redlock, 'customer:42')
  const queue = `q-${namespace}`
  const locked = fixture.lockedQueue<{ customer: number }>(
    { resource: ({ customer }) => `customer:${customer}` },
    queue,
  )
  for (const jobId of ['a', 'b']) await locked.add('post', { customer: 42 }, { jobId })
  await locked.close()
  const handler = fixture.closing(dashboardHandler(optionsFor(fixture, { timeoutMs: 3_000 })))
  const served = await listen(fixture, (request, response) => {
    handler(request, response)
  })
  const { base } = served
  const state = (): Promise<DashboardState> => served.state()
  const detail = async (): Promise<ResourceDetail> =>
    (await (await fetch(`${base}/resource?name=customer:42`)).json()) as ResourceDetail
  const firstEvent = async (): Promise<DashboardState> => {
    const { body } = await fetch(`${base}/events`)
    let text = ''
    for await (const chunk of body ?? []) {
      text += Buffer.from(chunk).toString()
      const [, data] = /^data: (.*)$/m.exec(text) ?? []
      if (data !== undefined && text.endsWith('\n\n')) return JSON.parse(data) as DashboardState
    }
    throw new Error(`No event in: ${text}`)
  }
  await state() // It is connected before the outage begins.
  const heal = await strike(fixture, outage)
  const queueAnswers = outage.queue !== 'dead' && outage.queue !== 'silent'
  await until('a new look is due', async () => {
    const { leases, lines } = await state()
    return (leases.problem === null) === hasQuorum(outage) && 'lines' in lines === queueAnswers
  })

  for (const path of ['/', '/page.css', '/page.js']) {
    expect((await fetch(base + path)).status).toBe(200)
  }
  const shown = await state()
  const event = await firstEvent()
  const resource = await detail()
  for (const { leases, lines, queues } of [shown, event]) {
    expect(leases.problem === null).toBe(hasQuorum(outage))
    const problem = { problem: expect.any(String) as string }
    if (!queueAnswers) expect({ lines, queues }).toMatchObject({ lines: problem, queues: problem })
    else if (hasQuorum(outage)) expect(waits(lines)).toMatch(/^the lease of /)
    else expect(waits(lines)).toMatch(/^a quorum of the lock masters: \d of 5 masters vote/)
  }
  expect(resource.state).toBe(hasQuorum(outage) ? 'held' : 'unknown')
  const own = (line: unknown): readonly { readonly queue: string }[] =>
    (line as { readonly queue: string }[]).filter((entry) => entry.queue === queue)
  if (queueAnswers) expect(own(resource.line)).toHaveLength(2)
  else expect(resource).toMatchObject({ line: { problem: expect.any(String) as string } })
  const why = handler.why(queue, 'a')
  if (!queueAnswers) await expect(why).rejects.toThrow(/ECONNREFUSED|no reply within/)
  else if (hasQuorum(outage)) expect(await why).toContain('waits for the lease of')
  else expect(await why).toContain('waits for a quorum of the lock masters')

  await heal()
  await until('all is shown again', async () => {
    const { leases, lines } = await state()
    return leases.problem === null && waits(lines) !== undefined
  })
  expect(own((await detail()).line)).toHaveLength(2)
})

/** What the first job of the only line waits for. */
function waits(lines: DashboardState['lines']): string | undefined {
  return 'lines' in lines ? lines.lines[0]?.first[0]?.waitsFor : undefined
}
